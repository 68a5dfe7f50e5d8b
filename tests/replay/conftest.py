"""The recorded runs and sealed bundles of the evidence tests, and a bus that holds what the ledger and the store held."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import STREAMS
from gatewright.ledger.store import NOWHERE, Ledger
from tests.evidence.conftest import make_bundle, private_key, recorded_runs, sealed_bundles, signer
from tests.evidence.recorded_runs import RecordedRun

__all__ = ["make_bundle", "make_bus", "private_key", "recorded_runs", "sealed_bundles", "signer"]

MakeBus = Callable[[RecordedRun], Awaitable[MemoryBus]]


@pytest.fixture
def make_bus() -> MakeBus:
    """A bus whose ledger holds the run's transitions and whose store holds its artifacts."""

    async def make(recorded: RecordedRun) -> MemoryBus:
        server = MemoryServer()
        server.ensure(STREAMS, ())
        bus = MemoryBus(server)
        ledger, position = Ledger(bus), NOWHERE
        for transition in recorded.transitions:
            position = await ledger.append(position, transition)
        for data in recorded.store.blobs.values():
            await bus.put_artifact(data)
        return bus

    return make
