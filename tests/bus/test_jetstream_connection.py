"""How a bus connection begins, ends and shows itself on a real server."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.errors import BusError, ConfigurationError
from tests.bus.backends import TASKS, give
from tests.bus.failures import PASSWORD, restart
from tests.tcp_proxy import Wire
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


async def test_a_wrong_credential_is_refused_at_once_and_not_shown(nats_server: OpenServer) -> None:
    with pytest.raises(BusError) as caught:
        await JetStreamBus.connect(f"nats://gatewright:{PASSWORD}@127.0.0.1:{nats_server.port}", name="worker")
    assert "Authorization" in caught.value.message
    assert PASSWORD not in caught.value.message


async def test_no_server_is_an_error_after_the_patience_of_the_caller() -> None:
    start = time.perf_counter()
    with pytest.raises(BusError, match=r"127\.0\.0\.1:1") as caught:
        await JetStreamBus.connect(f"nats://u:{PASSWORD}@127.0.0.1:1", name="worker", patience=0.5)
    assert time.perf_counter() - start > 0.4
    assert PASSWORD not in caught.value.message


async def test_a_client_that_swallows_a_cancellation_is_given_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    swallowed: list[BaseException] = []

    async def next_server(_: Client) -> None:  # as the client does before Python 3.12, at times
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError as error:
            swallowed.append(error)
            if len(swallowed) == 2:
                raise
        raise nats.errors.NoServersError  # after which it goes on for ever

    monkeypatch.setattr(Client, "_select_next_server", next_server)
    with pytest.raises(BusError, match=r"cannot reach .*127\.0\.0\.1:1"):
        async with asyncio.timeout(PATIENCE):
            await Connection.open("nats://127.0.0.1:1", name="worker", patience=0.1)
    assert len(swallowed) == 2


async def test_a_name_that_cannot_be_an_inbox_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        await JetStreamBus.connect("nats://127.0.0.1:1", name="worker.>")


async def test_a_credential_that_is_no_longer_taken_ends_the_bus(tmp_path: Path) -> None:
    server = await OpenServer.open(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    lost: asyncio.Queue[BusError] = asyncio.Queue()
    bus = await JetStreamBus.connect(server.url, name="worker", on_lost=lost.put_nowait)
    waiting = asyncio.create_task((await bus.consume(TASKS)).next(30))
    await asyncio.sleep(0.1)
    server = await restart(server, tmp_path, password="another")
    assert "refused the credential of worker" in (await asyncio.wait_for(lost.get(), PATIENCE)).message
    with pytest.raises(BusError):
        await asyncio.wait_for(waiting, 3)
    with pytest.raises(BusError):
        await give(bus, b"1")
    assert lost.empty()
    await bus.close()
    await server.stop()


async def test_closing_on_purpose_is_not_a_loss(nats_server: OpenServer) -> None:
    lost: list[BusError] = []
    bus = await JetStreamBus.connect(nats_server.url, name="worker", on_lost=lost.append)
    await bus.close()
    assert lost == []


async def test_the_connection_has_the_roles_name_and_its_own_inbox(nats_server: OpenServer, bus: JetStreamBus) -> None:
    await (await bus.consume(TASKS)).next(0.05)
    monitor = http.client.HTTPConnection("127.0.0.1", int(nats_server._monitoring.rpartition(":")[2]))
    monitor.request("GET", "/connz?subs=1")
    (connection,) = json.loads(monitor.getresponse().read())["connections"]
    monitor.close()
    assert connection["name"] == "worker"
    assert all(subject.startswith("_INBOX_worker.") for subject in connection["subscriptions_list"])


async def test_subscriptions_reach_the_server_before_they_are_confirmed(nats_server: OpenServer) -> None:
    """A service that says it is registered, and a follower that begins to read, miss nothing that comes from then on."""

    async def ignore(_message: object) -> None:
        return

    async with Wire(nats_server.port) as wire:
        connection = await Connection.open(nats_server.url.replace(str(nats_server.port), str(wire.port)), name="worker")
        wire.sent = bytearray()
        for number in range(3):
            await connection.subscribe(f"subject.{number}", ignore)
        await connection.flush()
        sent = bytes(wire.sent)
        await connection.close()
    assert sent.count(b"SUB ") == 3
    assert sent.rindex(b"SUB ") < sent.rindex(b"PING")
