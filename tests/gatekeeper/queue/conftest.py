"""A real NATS server for merge queues, and gatekeepers on it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from tests.gatekeeper.queue.cluster import Connect, hurry
from tests.unauthenticated_nats import OpenServer


@pytest.fixture(scope="session")
def prepared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a server on which the topology was set up; every test starts a server of its own on a copy."""
    directory = tmp_path_factory.mktemp("prepared-for-queues")

    async def prepare() -> None:
        async with await OpenServer.open(directory) as server:
            await ensure_topology(server.url)

    asyncio.run(prepare())
    return directory


@pytest.fixture
async def connect(tmp_path: Path, prepared_store: Path) -> AsyncIterator[Connect]:
    """How a gatekeeper connects to a server of this test."""
    shutil.copytree(prepared_store, tmp_path / "nats")
    async with await OpenServer.open(tmp_path / "nats") as server:
        yield lambda name: JetStreamBus.connect(server.url, name=name)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of the shell."""
    hurry(monkeypatch.setattr)
