"""How a provider is reached: over TLS with the authorities that the policy names, through the proxy that it names."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from tests.models.calls import QUICK, Got, ask, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that it signed itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "scripted provider")])
    now = dt.datetime.now(dt.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "provider.pem"
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(private + signed.public_bytes(serialization.Encoding.PEM))
    return path


async def asked(policy: dict[str, Any]) -> tuple[Got, ModelGateway]:
    loaded = ModelsPolicy.model_validate(policy)
    gateway = ModelGateway(loaded, loaded.grant("worker"), limits=replace(QUICK, attempts=1))
    return await ask(gateway, *request_of("responses")), gateway


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "unknown"])
async def test_a_key_goes_only_to_whom_the_named_authorities_vouch_for(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with ScriptedProvider({"say": [Say("in private")]}, tls=tls) as provider:
        policy = provider.policy("say")
        if trusted:
            policy["providers"][0]["ca_file"] = str(certificate)
        got, gateway = await asked(policy)
        assert (got.status == 200) == trusted
        assert len(provider.requests) == int(trusted)
    if not trusted:
        assert gateway.records.calls[0].tried == ("scripted-openai/scripted: ClientConnectorCertificateError",)


async def test_a_missing_file_of_authorities_is_reported(provider: ScriptedProvider) -> None:
    policy = provider.policy("say")
    policy["providers"][0]["ca_file"] = "/nowhere/ca.pem"
    got, _ = await asked(policy)
    assert "configuration_invalid" in got.text
    assert provider.requests == []


async def test_a_proxy_that_the_policy_names_is_used(provider: ScriptedProvider) -> None:
    provider.scripts["scripted"] = [Say("by way of the proxy")]
    policy = provider.policy("say")
    policy["providers"][0] |= {"base_url": "http://models.invalid/v1", "key": None, "proxy": provider.root}
    got, _ = await asked(policy)
    assert got.status == 200
    assert provider.requests[0].path == "http://models.invalid/v1/responses"
