"""The embedded NATS server: how it is configured, starts, ends and fails."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import sys
import textwrap
from pathlib import Path

import pytest
from nats.aio.client import Client

from gatewright.app.stack.nats_server import NatsServer, find_binary
from gatewright.app.stack.processes import identity
from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.errors import BusError, UnavailableError
from tests.waiting import PATIENCE


def test_the_binary_comes_with_the_wheel() -> None:
    assert find_binary().name == "nats-server"


async def test_a_server_is_ready_and_durable(tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path / "a folder" / "nats") as server:
        bus = await JetStreamBus.connect(server.address("provisioner"), name="setup")
        assert bus.connection.client.max_payload == 8 * 1024 * 1024
        await bus.close()
    assert "sync_interval: always" in (tmp_path / "a folder" / "nats" / "nats-server.conf").read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        b"caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac",
        b"a 'quoted' \"name\"",
        b"$HOME ${HOME}",
        b"#hash // x",
        b"back\\slash\\x41",
        b"line\nbreak\ttab\x01",
        b"{a: b}; [c]",
        b"%n*?",
        b"caf\xe9",
    ],
    ids=repr,
)
async def test_a_server_keeps_its_files_in_a_folder_of_any_name(tmp_path: Path, name: bytes) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)) / "nats"
    async with await NatsServer.start(folder) as server:
        bus = await JetStreamBus.connect(server.address("provisioner"), name="setup")
        await ensure_topology(bus)
        await bus.close()
    assert (folder / "jetstream" / "gatewright" / "streams" / "RUNS").is_dir()
    assert b"Server is ready" in (folder / "nats-server.log").read_bytes()


async def test_a_client_without_the_credential_is_refused(tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path) as server:
        client = Client()
        with pytest.raises(Exception, match="Authorization Violation"):
            await client.connect(f"nats://127.0.0.1:{server.port}", allow_reconnect=False, error_cb=_be_quiet)
        await client.close()


async def test_the_credential_of_one_server_is_refused_by_another(tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path / "1") as one, await NatsServer.start(tmp_path / "2") as other:
        assert one.port != other.port
        stolen = BusAddress(other.url, one.address("gatekeeper").seed)
        with pytest.raises(BusError, match="refused the credential"):
            await JetStreamBus.connect(stolen, name="gatekeeper")


async def test_the_files_of_a_server_are_private(tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir(mode=0o755)
    (tmp_path / "nats" / "nats-server.conf").symlink_to(tmp_path / "elsewhere")
    async with await NatsServer.start(tmp_path / "nats"):
        assert stat.S_IMODE((tmp_path / "nats").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "nats" / "nats-server.conf").stat().st_mode) == 0o600
        assert not (tmp_path / "elsewhere").exists()


async def test_a_server_comes_back_on_its_port_with_its_identities(tmp_path: Path) -> None:
    server = await NatsServer.start(tmp_path)
    await server.stop()
    await server.stop()
    async with await NatsServer.start(tmp_path, port=server.port) as again:
        assert again.address("worker") == server.address("worker")
        await (await JetStreamBus.connect(again.address("worker"), name="worker")).close()


async def test_an_occupied_port_is_reported_with_the_servers_message(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UnavailableError, match="address already in use"):
            await NatsServer.start(tmp_path, port=taken.getsockname()[1])


async def test_a_fake_binary_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot be started"):
        await NatsServer.start(tmp_path, binary=tmp_path / "missing")


async def test_an_unexpected_end_is_reported_with_the_last_words(tmp_path: Path) -> None:
    async with await NatsServer.start(tmp_path) as server:
        watching = asyncio.create_task(server.ended())
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(UnavailableError, match=r"code -9: [\s\S]*Server is ready"):
            await asyncio.wait_for(watching, 3)


async def test_a_stop_is_no_unexpected_end(tmp_path: Path) -> None:
    server = await NatsServer.start(tmp_path)
    watching = asyncio.create_task(server.ended())
    await server.stop()
    await asyncio.wait_for(watching, PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


async def test_the_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = """
        import asyncio, os, pathlib, signal, sys
        from gatewright.app.stack.nats_server import NatsServer

        async def main():
            server = await NatsServer.start(pathlib.Path(sys.argv[1]))
            print(server.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(main())
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(program), tmp_path, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    await asyncio.sleep(0.2)
    assert identity(int(output)) is None


async def _be_quiet(error: Exception) -> None:
    """nats-py reports what it is about to raise."""
