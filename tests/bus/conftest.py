"""Both backends behind one fixture, and the real server that one of them needs."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from tests.bus.backends import PATIENT, PATIENT_CLASSES, Backend, Connect, JetStreamBackend, MemoryBackend, Raw
from tests.unauthenticated_nats import OpenServer


@pytest.fixture(scope="session")
def prepared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a server on which the topology was set up; every test starts a server of its own on a copy."""
    directory = tmp_path_factory.mktemp("prepared")

    async def prepare() -> None:
        async with await OpenServer.open(directory) as server:
            await ensure_topology(server.url)
            await ensure_topology(server.url, queues=[*PATIENT_CLASSES, PATIENT])

    asyncio.run(prepare())
    return directory


@pytest.fixture
async def bare_server(tmp_path: Path) -> AsyncIterator[OpenServer]:
    """A server without any stream."""
    async with await OpenServer.open(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def nats_server(tmp_path: Path, prepared_store: Path) -> AsyncIterator[OpenServer]:
    """A server with the topology."""
    shutil.copytree(prepared_store, tmp_path / "nats")
    async with await OpenServer.open(tmp_path / "nats") as server:
        yield server


@pytest.fixture
async def bus(nats_server: OpenServer) -> AsyncIterator[JetStreamBus]:
    """A worker's bus on the real server."""
    connected = await JetStreamBus.connect(nats_server.url, name="worker")
    yield connected
    await connected.close()


@pytest.fixture(params=["memory", "jetstream"])
async def backend(request: pytest.FixtureRequest, tmp_path: Path, prepared_store: Path) -> AsyncIterator[Backend]:
    if request.param == "memory":
        memory = MemoryBackend()
        await memory.ensure()
        await memory.ensure([*PATIENT_CLASSES, PATIENT])
        yield memory
        await memory.close()
        return
    shutil.copytree(prepared_store, tmp_path / "nats")
    async with await OpenServer.open(tmp_path / "nats") as server:
        jetstream = JetStreamBackend(server)
        yield jetstream
        await jetstream.close()


@pytest.fixture
def connect(backend: Backend) -> Connect:
    return backend.connect


@pytest.fixture
async def connect_raw() -> AsyncIterator[Raw]:
    """Make plain nats-py connections to a server: what an operator's tools, or an attacker, would use."""
    clients: list[Client] = []

    async def make(server: OpenServer) -> Client:
        client = Client()
        await client.connect(server.url)
        clients.append(client)
        return client

    yield make
    for client in clients:
        await client.close()
