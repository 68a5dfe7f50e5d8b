"""A repository with a change request, a forge that shows it, and a gatekeeper that takes the orders."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.forge.desired import ForgeView
from gatewright.app.forge.inward import Inward, JudgedHeads, judged_heads
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.client.client import inline_artifact
from gatewright.clock import SystemClock
from gatewright.contracts import Error, RunRequest
from gatewright.contracts.vocabulary import Artifact
from gatewright.errors import DeniedError
from gatewright.git.mirror import Mirrors
from gatewright.ledger.store import Ledger
from gatewright.run.history import follow_all
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.view.rows import BoardRow, row_of
from tests.forge.inward.known_forge import RULE, KnownForge, make_entry, make_request
from tests.gatekeeper.contexts import delivered_policies
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

REF = "refs/pull/7/head"
PUBLISHER = "forge"


@dataclass
class GatekeeperOrders:
    """Orders for the intake of a real gatekeeper."""

    intake: IntakeFixture

    async def attach(self, name: str, data: bytes) -> Artifact:
        return inline_artifact(name, data)

    async def submit_request(self, request: RunRequest) -> str:
        reply = await self.intake.submit(request, PUBLISHER)
        if isinstance(reply, Error):
            raise DeniedError(reply.message, code=reply.code)
        return reply.run_id


@dataclass
class JudgedProject:
    """A project whose change request 7 is open. ``inward`` orders the runs that judge it."""

    repository: Repository
    forge: KnownForge
    intake: IntakeFixture
    inward: Inward
    rows: list[BoardRow]

    def push(self, content: bytes) -> str:
        """Give request 7 a new head, and return it."""
        repository = self.repository
        repository.git("checkout", "--quiet", "--detach", REF)
        head = repository.commit({"src/app.py": content})
        repository.git("update-ref", REF, head)
        repository.git("checkout", "--quiet", "main")
        self.forge.requests[7] = make_request(head=head)
        return head

    async def read_ledger(self) -> None:
        """Let the process know the runs so far, as its watcher would."""
        ledger = Ledger(self.intake.bus)
        for run_id in await self.intake.runs():
            events = [event for step in (await ledger.get(run_id)).transitions for event in step.events]
            followed = follow_all(events)
            assert followed is not None
            self.rows.append(row_of(followed, 1))


@pytest.fixture
async def project(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[JudgedProject]:
    repository = make_repository()
    repository.git("update-ref", REF, "main")
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)

    async def is_open(_run_id: str) -> bool:
        return False

    mirrors = Mirrors(tmp_path / "gatekeeper-mirrors")
    locks = PathLocks(bus, is_open)
    gates = GateEngine(delivered_policies(), mirrors, ArtifactCache(bus), locks, SystemClock(), {})
    intake = open_intake(bus, gates, tmp_path, make_publisher(PUBLISHER))
    forge, rows, entry = KnownForge(), list[BoardRow](), make_entry(repository.url)

    def judged_so_far() -> JudgedHeads:
        return judged_heads(ForgeView(entry, tuple(rows), PUBLISHER), SystemClock().now())

    inward = Inward(
        entry,
        replace(RULE, allowed_paths=("src/app.py",)),
        forge,
        Mirrors(tmp_path / "forge-mirrors"),
        GatekeeperOrders(intake),
        judged_so_far,
        PUBLISHER,
    )
    judged = JudgedProject(repository, forge, intake, inward, rows)
    judged.push(b"one\n2\nthree\n")
    yield judged
    for task in intake.following:
        task.cancel()
    await asyncio.gather(*intake.following, return_exceptions=True)
    await bus.close()
