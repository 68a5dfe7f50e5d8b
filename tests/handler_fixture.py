"""What a role's handler needs in a test: real repositories, contracts about them, artifacts in memory, a clock that stands."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from gatewright.artifacts import stored_digest, uri_of
from gatewright.contracts import TaskContract, codec
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import Artifact, Repository
from gatewright.errors import ArtifactError, SandboxError
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.sandbox import Completed, SandboxLimits, SandboxReport, WorkingFolder
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.port import SOURCE_DATE_EPOCH, Additions
from gatewright.tasks.handler import TaskContext
from gatewright.telemetry.logs import make_logger
from tests.factories import make_contract
from tests.git.repositories import Repository as GitRepository


class StandingClock:
    """Always the same moment."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


class RunningClock(StandingClock):
    """Its times begin at the same moment and pass as time does, for reports whose commands take a while."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=time.monotonic() - self._started)


class BrokenSandbox:
    """A host that forbids user namespaces."""

    @property
    def name(self) -> Literal["bubblewrap", "none"]:
        return "bubblewrap"

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: WorkingFolder,
        prefix: Shown,
        limits: SandboxLimits,
        source_date_epoch: int = SOURCE_DATE_EPOCH,
        additions: Additions | None = None,
    ) -> Completed:
        raise SandboxError("user namespaces are forbidden here")

    async def probe(self) -> SandboxReport:
        return SandboxReport(available=False, cause="user namespaces are forbidden here")


@dataclass
class MemoryArtifacts:
    """Artifacts by URI."""

    stored: dict[str, bytes] = field(default_factory=dict)

    async def put(self, data: bytes) -> str:
        self.stored[uri_of(data)] = data
        return uri_of(data)

    async def get(self, uri: str) -> bytes:
        try:
            return self.stored[uri]
        except KeyError:
            raise ArtifactError(f"{uri} is not stored") from None

    def hold(self, name: str, data: bytes) -> Artifact:
        """Store ``data`` and refer to it as an input artifact."""
        uri = uri_of(data)
        self.stored[uri] = data
        return Artifact(name=name, uri=uri, sha256=stored_digest(uri))


@dataclass
class HandlerFixture:
    """One repository at one baseline, and everything around a task about it."""

    repository: GitRepository
    baseline: str
    mirrors: Mirrors
    state: Path
    artifacts: MemoryArtifacts = field(default_factory=MemoryArtifacts)
    steps: int = 0

    def contract(self, **changes: object) -> TaskContract:
        """A contract about the repository, as a role would decode it from the bus."""
        contract = make_contract(
            repository=Repository(url=self.repository.url),
            rollback=Rollback(strategy="worktree_drop", baseline_ref=self.baseline),
        )
        return codec.decode(codec.encode(replace(contract, **changes)), TaskContract)

    def context(self, clock: StandingClock | None = None) -> TaskContext:
        def progress() -> None:
            self.steps += 1

        return TaskContext(self.artifacts, clock or StandingClock(), make_logger(io.BytesIO()), 1, progress)

    async def mirror(self) -> Mirror:
        mirror = await self.mirrors.open(self.repository.url)
        await mirror.ensure(self.baseline)
        return mirror

    async def changed(self, files: Mapping[str, bytes | None]) -> tuple[str, bytes]:
        """Tree id and canonical patch of the baseline with other files (None: deleted), made by plain git."""
        self.repository.git("checkout", "--quiet", "-B", "candidate", self.baseline)
        commit = self.repository.commit(files, "candidate")
        mirror = await self.mirror()
        await mirror.ensure(commit)
        tree = await mirror.tree_of(commit)
        return tree, await mirror.diff(self.baseline, tree)


def make_handler_fixture(tmp_path: Path, files: Mapping[str, bytes]) -> HandlerFixture:
    """A new repository with one commit of ``files``, and an empty state directory."""
    home = tmp_path / "home"
    home.mkdir()
    repository = GitRepository(tmp_path / "source", home)
    repository.path.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main")
    baseline = repository.commit(files, "first")
    return HandlerFixture(repository, baseline, Mirrors(tmp_path / "mirrors"), tmp_path / "state")
