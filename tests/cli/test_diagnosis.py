"""What doctor says of the bus before a server refuses its streams: on a small volume, of a stack, of a server elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from gatewright.app.cli import diagnosis
from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.diagnosis import UnfitError
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus.identities import OPERATOR, PROVISIONER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.server_config import accounts
from gatewright.bus.topology import task_consumer
from gatewright.policy_files import POLICY_FILES, PolicyEntry
from tests.volumes import on_volume
from tests.waiting import PATIENCE

MIB = 1 << 20


def bus_line(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    checks = json.loads(done.stdout)["checks"]
    found: dict[str, Any] = next(check for check in checks if check["name"] == "bus")
    return found


@pytest.mark.parametrize(
    ("size", "ok", "words"),
    [
        (60, False, "they need at least 112 MiB"),
        pytest.param(8192, True, "they are smaller", marks=pytest.mark.long),
    ],
)
def test_doctor_looks_at_the_volume_as_the_server_will(size: int, ok: bool, words: str, tmp_path: Path) -> None:
    mount = tmp_path / "volume"
    command = ("env", f"GATEWRIGHT_HOME={mount / 'home'}", sys.executable, "-m", "gatewright.app.cli.main", "doctor", "--json")
    found = bus_line(on_volume(mount, size * MIB, *command))
    assert found["ok"] is ok
    assert words in found["detail"]
    assert bool(found["hint"]) is not ok


async def ask(tmp_path: Path, storage: int, identity: str) -> str:
    """Doctor's words about a server elsewhere whose account may keep ``storage`` bytes."""
    keys = tmp_path / "keys"
    identities.make(keys)
    table = accounts(identities.public_keys(keys))
    table["gatewright"]["jetstream"] = {"max_file": storage}
    async with await NatsServer.launch(tmp_path / "nats", table, keys) as server:
        place = CommandContext(tmp_path, tmp_path / "home", server.address(identity), tmp_path / "key")
        return await asyncio.to_thread(diagnosis.look_at_bus, place)


async def test_doctor_asks_a_server_elsewhere_what_its_account_may_keep(tmp_path: Path) -> None:
    assert "gives its streams 700 MiB, of the 9.0 GiB" in await ask(tmp_path, 700 * MIB, OPERATOR)


async def test_doctor_refuses_a_server_elsewhere_whose_account_may_keep_too_little(tmp_path: Path) -> None:
    with pytest.raises(UnfitError, match="gives its streams 50 MiB; they need at least 112 MiB"):
        await ask(tmp_path, 50 * MIB, OPERATOR)


async def test_doctor_uses_the_configured_stream_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_STREAM_BYTES", "RESULTS=1GiB")
    with pytest.raises(UnfitError, match=r"gives its streams 700 MiB; they need at least 1\.0 GiB"):
        await ask(tmp_path / "little", 700 * MIB, OPERATOR)
    monkeypatch.setenv("GATEWRIGHT_STREAM_BYTES", "RESULTS=64MiB INTAKE=16MiB UPLOADS=16MiB")
    assert (await ask(tmp_path / "enough", 700 * MIB, OPERATOR)).endswith("gives its streams 700 MiB")


async def test_doctor_lists_processes_that_share_an_identity(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    identities.make(keys, (*identities.STANDING, "worker-2"))
    table = accounts(identities.public_keys(keys))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(await NatsServer.launch(tmp_path / "nats", table, keys))
        for identity in ("worker", "worker-2", "reviewer", "gatekeeper", "gatekeeper"):
            await serving(stack, server, identity)
        place = CommandContext(tmp_path, tmp_path / "home", server.address(OPERATOR), tmp_path / "key")
        assert "share the identity" not in await asyncio.to_thread(diagnosis.look_at_bus, place)
        one, other = await serving(stack, server, "worker"), await serving(stack, server, "worker")
        words = await asyncio.to_thread(diagnosis.look_at_bus, place)
        assert "3 processes share the identity worker, and each can see and answer what the others are given" in words
        assert words.count("share the identity") == 1
        # As it says.
        spied: asyncio.Queue[bytes] = asyncio.Queue()

        async def spy(message: Msg) -> None:
            await spied.put(message.data)

        await ensure_topology(server.address(PROVISIONER))
        await other.connection.subscribe("_INBOX_worker.>", spy)
        await other.connection.flush()
        subscription = await one.consume(task_consumer("worker"))
        stack.push_async_callback(subscription.close)
        gatekeeper = await serving(stack, server, "gatekeeper")
        await gatekeeper.publish(task_consumer("worker").subject, b"for one alone", schema="s", message_id="t1")
        assert await subscription.next(10) is not None
        async with asyncio.timeout(PATIENCE):
            while await spied.get() != b"for one alone":
                pass


async def serving(stack: contextlib.AsyncExitStack, server: NatsServer, identity: str) -> JetStreamBus:
    """A process of this identity, to be found as a service."""
    bus = await JetStreamBus.connect(server.address(identity), name=identity)
    stack.push_async_callback(bus.close)
    await bus.serve(f"gw-{identities.role_of(identity)}", {})
    return bus


async def test_doctor_reports_an_identity_without_the_right_to_ask(tmp_path: Path) -> None:
    assert "only an operator may read" in await ask(tmp_path, 50 * MIB, "publisher")


async def test_doctor_reports_a_process_that_cannot_store_bundles(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    identities.make(keys)
    table = accounts(identities.public_keys(keys))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(await NatsServer.launch(tmp_path / "nats", table, keys))
        place = CommandContext(tmp_path, tmp_path / "home", server.address(OPERATOR), tmp_path / "key")
        assert await asyncio.to_thread(diagnosis.look_at_processes, place) == "no process of a role answers"
        lacks = {"lacks": ""}
        gatekeeper = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
        stack.push_async_callback(gatekeeper.close)
        gatekeeper.report_facts(lambda: lacks)
        await gatekeeper.serve("gw-gatekeeper", {})
        assert "1 processes report that they are ready" in await asyncio.to_thread(diagnosis.look_at_processes, place)
        lacks["lacks"] = "evidence: 8 runs are not written or sealed: the store s3://evidence is away"
        with pytest.raises(UnfitError, match=r"gatekeeper .*: evidence: 8 runs are not written or sealed"):
            await asyncio.to_thread(diagnosis.look_at_processes, place)
        guest = CommandContext(tmp_path, tmp_path / "home", server.address("publisher"), tmp_path / "key")
        assert "to an operator only" in await asyncio.to_thread(diagnosis.look_at_processes, guest)


@pytest.mark.parametrize("entry", POLICY_FILES, ids=lambda entry: entry.name)
def test_doctor_reads_every_policy_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: PolicyEntry) -> None:
    (tmp_path / entry.name).write_text('{"version": "1", "nonsense": 1}' if entry.name.endswith(".json") else "x" * (1 << 16))
    monkeypatch.setenv("GATEWRIGHT_POLICIES", str(tmp_path))
    found = next(each for each in diagnosis.diagnose() if each.name == "policies")
    assert not found.ok
    assert entry.name in found.detail
