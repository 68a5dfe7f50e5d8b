"""The real gates on real repositories, over the in-memory bus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.clock import SystemClock
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Repository
from gatewright.git.mirror import Mirrors
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.policies.load import Policies
from tests.factories import make_request
from tests.gatekeeper.contexts import delivered_policies
from tests.git.repositories import MakeRepository


@pytest.fixture(scope="session")
def policies() -> Policies:
    return delivered_policies()


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    connected = MemoryBus(MemoryServer())
    await ensure_topology(connected)
    yield connected
    await connected.close()


@pytest.fixture
def gates(policies: Policies, bus: MemoryBus, tmp_path: Path) -> GateEngine:
    async def nobody_has_ended(_run_id: str) -> bool:
        return False

    mirrors = Mirrors(tmp_path / "gatekeeper-mirrors")
    return GateEngine(policies, mirrors, ArtifactCache(bus), PathLocks(bus, nobody_has_ended), SystemClock(), {})


@pytest.fixture
def request_for(make_repository: MakeRepository) -> RunRequest:
    """A request for a repository that is there."""
    return make_request(repository=Repository(url=make_repository().url), baseline_ref="main")
