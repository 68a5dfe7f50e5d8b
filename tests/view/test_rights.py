"""A board asks for no more than its identity may have: the server refuses a watcher everything but the ledger, and logs it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.app.feed import agent_words
from gatewright.app.feed.agent_words import AgentWords
from gatewright.app.feed.link import LedgerLink, read_once
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.top.surroundings import look_around
from gatewright.bus.identities import OPERATOR, PROVISIONER, WATCHER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import dead_subject
from gatewright.client.client import Client
from gatewright.errors import BusError


@contextlib.asynccontextmanager
async def connected(server: NatsServer, identity: str) -> AsyncIterator[JetStreamBus]:
    bus = await JetStreamBus.connect(server.address(identity), name=identity, patience=2)
    try:
        yield bus
    finally:
        await bus.close()


async def test_a_watchers_board_has_the_server_refuse_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_words, "_LOOK", 0.01)
    async with await NatsServer.start(tmp_path / "nats", keys=tmp_path / "bus") as server:
        await ensure_topology(server.address(PROVISIONER))
        async with connected(server, WATCHER) as bus, connected(server, OPERATOR) as operator:
            assert (bus.may_request, operator.may_request) == (False, True)
            client = Client(bus)
            assert (await read_once(client)).current
            assert "operator" in (await look_around(client)).refused
            link = LedgerLink(contextlib.nullcontext)  # type: ignore[arg-type]  # its connection is given
            link._client = client
            listening = asyncio.create_task(AgentWords(link).listen())
            for _ in range(5):
                await asyncio.sleep(0)  # it takes its first steps
            listening.cancel()
            await bus.connection.flush()
            assert bus.connection.client.last_error is None
            with pytest.raises(BusError):  # what asking anyhow comes to
                assert [each async for each in bus.replay(dead_subject("*"))] == []
            assert "permissions violation" in str(bus.connection.client.last_error)
            assert [each async for each in operator.replay(dead_subject("*"))] == []
