"""TLS as it is rendered: a client that knows the authority gets in with its identity, one that does not stays out."""

from __future__ import annotations

import datetime as dt
import ipaddress
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gatewright.app.stack.nats_server import find_binary
from gatewright.bus import identities
from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.server_config import ServerConfig, Tls, accounts, render
from gatewright.errors import BusError, ConfigurationError
from tests.processes import killed_on_failure
from tests.waiting import PATIENCE


def make_certificate(folder: Path) -> Tls:
    """A certificate for 127.0.0.1 that vouches for itself."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(private)
    return Tls(folder / "cert.pem", folder / "key.pem")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[str]:
    """The address of a server that speaks TLS only."""
    identities.make(tmp_path / "bus")
    port, monitor = free_port(), free_port()
    config = ServerConfig(
        store=tmp_path / "nats",
        accounts=accounts(identities.public_keys(tmp_path / "bus")),
        listen=f"127.0.0.1:{port}",
        monitor=f"127.0.0.1:{monitor}",
        tls=make_certificate(tmp_path / "tls"),
    )
    (tmp_path / "server.conf").write_text(render(config), "utf-8")
    with subprocess.Popen([find_binary(), "-c", tmp_path / "server.conf"], stderr=subprocess.DEVNULL) as server:
        give_up = time.monotonic() + PATIENCE
        with killed_on_failure(server):
            while True:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/healthz"):
                        break
                except OSError:
                    if time.monotonic() > give_up:
                        pytest.fail("it did not happen")
                    time.sleep(0.02)
        yield f"tls://127.0.0.1:{port}"
        server.terminate()


async def test_a_client_that_knows_the_authority_gets_in_with_its_identity(tls_server: str, tmp_path: Path) -> None:
    provisioner = BusAddress(tls_server, tmp_path / "bus" / "provisioner.nk", tmp_path / "tls" / "cert.pem")
    await ensure_topology(provisioner)
    worker = await JetStreamBus.connect(
        BusAddress(tls_server, tmp_path / "bus" / "worker.nk", tmp_path / "tls" / "cert.pem"), name="worker"
    )
    uri = await worker.put_artifact(b"over TLS")
    assert await worker.get_artifact(uri) == b"over TLS"
    await worker.close()


@pytest.mark.parametrize("scheme", ["tls", "nats"])
async def test_a_client_that_does_not_know_the_authority_stays_out(tls_server: str, tmp_path: Path, scheme: str) -> None:
    stranger = BusAddress(tls_server.replace("tls://", f"{scheme}://"), tmp_path / "bus" / "worker.nk")
    with pytest.raises(BusError):
        await JetStreamBus.connect(stranger, name="worker", patience=1.0)


async def test_an_authority_that_is_no_certificate_is_reported(tls_server: str, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    for ca in (tmp_path / "ca.pem", tmp_path / "absent.pem"):
        with pytest.raises(ConfigurationError, match="holds no certificate"):
            await JetStreamBus.connect(BusAddress(tls_server, tmp_path / "bus" / "worker.nk", ca), name="worker")
