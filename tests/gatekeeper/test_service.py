"""The gatekeeper's process in memory: what it answers while it is still reading a long ledger, and what is asked twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gatewright import Client
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.ledger_layout import Seen
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Message
from gatewright.client import client
from gatewright.clock import SystemClock
from gatewright.contracts.vocabulary import Repository
from gatewright.service.process import Readiness, Service
from gatewright.services.gatekeeper.projections.entries import READING
from gatewright.services.gatekeeper.service import serve
from gatewright.services.gatekeeper.settings import Settings
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_request
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE


class LongLedgerBus(MemoryBus):
    """Its ledger is never read to the end; a single run's part of it is."""

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        return _endless() if subject == "gw.run.*" else super().replay(subject, follow=follow, after=after)


async def _endless() -> AsyncGenerator[Message, None]:
    await asyncio.Event().wait()
    yield Message("", b"", {})


def test_a_client_learns_of_ledger_reading_before_its_timeout() -> None:
    assert min(client.ASK_AGAIN, client.STATUS_TIMEOUT) > READING


@pytest.mark.parametrize("times", [1, 16])
async def test_submissions_are_answered_while_a_long_ledger_is_still_being_read(
    make_repository: MakeRepository, tmp_path: Path, times: int
) -> None:
    server = MemoryServer()
    bus, publisher = LongLedgerBus(server), MemoryBus(server)
    await ensure_topology(bus)
    stop = asyncio.Event()
    service = Service(
        "gatekeeper", bus, SystemClock(), make_logger(), Metrics("gatekeeper"), Readiness({"registration": "no"}), stop
    )
    serving = asyncio.create_task(serve(service, Settings(home=tmp_path / "home", drain_seconds=0.1)))
    try:
        request = make_request(repository=Repository(url=make_repository().url), baseline_ref="HEAD")
        submitting = [Client(publisher).submit_request(request, patience=PATIENCE) for _ in range(times)]
        accepted = await asyncio.wait_for(asyncio.gather(*submitting), PATIENCE)
        assert len(set(accepted)) == times
        assert service.readiness.missing == {}
    finally:
        stop.set()
        await asyncio.wait_for(serving, PATIENCE)
        await publisher.close()
        await bus.close()
