"""Both backends behind one fixture, and the real server that one of them needs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from gatewright.bus.jetstream import JetStreamBus
from gatewright.bus.setup import ensure_topology
from gatewright.stack.nats_server import NatsServer
from tests.bus.backends import Backend, Connect, JetStreamBackend, MemoryBackend, Raw


@pytest.fixture
async def nats_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with await NatsServer.start(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[JetStreamBus]:
    """A worker's bus on the real server, with the topology set up."""
    await ensure_topology(nats_server.url)
    connected = await JetStreamBus.connect(nats_server.url, name="worker")
    yield connected
    await connected.close()


@pytest.fixture(params=["memory", "jetstream"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Backend]:
    if request.param == "memory":
        memory = MemoryBackend()
        await memory.ensure()
        yield memory
        await memory.close()
        return
    async with await NatsServer.start(tmp_path / "nats") as server:
        jetstream = JetStreamBackend(server)
        await jetstream.ensure()
        yield jetstream
        await jetstream.close()


@pytest.fixture
def connect(backend: Backend) -> Connect:
    return backend.connect


@pytest.fixture
async def connect_raw(nats_server: NatsServer) -> AsyncIterator[Raw]:
    """Make plain nats-py connections: what an operator's tools, or an attacker, would use."""
    clients: list[Client] = []

    async def make() -> Client:
        client = Client()
        await client.connect(nats_server.url)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
