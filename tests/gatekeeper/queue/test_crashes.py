"""Two gatekeepers of one queue. The one that stored a step ends before it does anything else; the other one finishes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.evidence.verification.verify import verify
from gatewright.queue.events import QueueEvent
from gatewright.run.state import run_id_of
from gatewright.services.gatekeeper.queue.store import KnownQueue, QueueStore
from tests.gatekeeper.queue.cluster import Cluster, Connect, DiedError, Member, hurry, open_cluster
from tests.git.repositories import MakeRepository, Repository
from tests.series import series

NAMES = ("one", "broken", "readme", "late", "two")
LANDED = ("one", "readme", "two")
ENDINGS = {**dict.fromkeys(LANDED, "landed"), "broken": "merge_tests_failed", "late": "merge_conflict"}
#: Steps of the queue without a crash.
STEPS = 23


@dataclass
class Fuse:
    """After which step of the queue a process ends, or before which event. ``burnt``: the events of that step."""

    step: int = 10**6
    before: str = ""
    burnt: tuple[str, ...] = ()


class FusedStore(QueueStore):
    """The stream as a gatekeeper sees it that ends with the step of a fuse."""

    def __init__(self, member: Member, fuse: Fuse) -> None:
        super().__init__(member.bus, member.orchestrator.clock)
        self._member = member
        self._fuse = fuse

    async def append(self, known: KnownQueue, events: Sequence[QueueEvent]) -> KnownQueue:
        if self._member.dead:
            raise DiedError
        kinds = tuple(event.event_type for event in events)
        if self._fuse.before in kinds:
            self._end(kinds)
        after = await super().append(known, events)
        if after.number >= self._fuse.step:
            self._end(kinds)
        return after

    def _end(self, kinds: tuple[str, ...]) -> None:
        if not self._fuse.burnt:
            self._fuse.burnt = kinds
            self._member.kill()
            raise DiedError


@dataclass(frozen=True)
class Outcome:
    """What a queue came to. Commits differ from one history to another, as they name events with their times."""

    endings: dict[str, str]
    trees: list[str]
    updates: int
    receipts: dict[str, tuple[tuple[int, str, str, tuple[str, ...]], ...]]


async def play(cluster: Cluster, fuse: Fuse) -> Outcome:
    for member in cluster.members:
        member.queues._store = FusedStore(member, fuse)
    baseline = cluster.target.head()
    content = {"broken": b"bad\n"}
    for name in NAMES:
        path = "README.md" if name in {"readme", "late"} else f"{name}.txt"
        await cluster.enqueue(name, {path: content.get(name, name.encode())}, baseline=baseline)
    endings = await cluster.ended(*NAMES)
    history = cluster.history()
    receipts = {name: await cluster.receipt(name) for name in LANDED}
    assert cluster.ref_updates() == history[1:]
    assert [receipt.commits()[run_id_of(name)] for name, receipt in receipts.items()] == history[1:]
    assert all(verify(cluster.bundle(name), [cluster.public_key]).ok for name in NAMES)
    return Outcome(
        endings,
        [cluster.target.git("rev-parse", f"{commit}^{{tree}}").decode().strip() for commit in history],
        len(cluster.ref_updates()),
        {
            name: tuple((each.number, each.tree, each.outcome, each.runs) for each in receipt.positions)
            for name, receipt in receipts.items()
        },
    )


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory, first_repository: Repository) -> Outcome:
    """What the queue comes to with one gatekeeper and without a crash."""
    folder = tmp_path_factory.mktemp("reference")
    shutil.copytree(first_repository.path, folder / "source", symlinks=True)

    async def whole() -> Outcome:
        server = MemoryServer()
        await ensure_topology(MemoryBus(server))

        async def connect(_name: str) -> MemoryBus:
            return MemoryBus(server)

        async with open_cluster(connect, folder, Repository(folder / "source", first_repository.home)) as cluster:
            outcome = await play(cluster, Fuse())
            assert (await cluster.alive.queues._store.load(cluster.queue_id)).number == STEPS
            return outcome

    with pytest.MonkeyPatch.context() as patched:
        hurry(patched.setattr)
        return asyncio.run(whole())


def test_without_a_crash_each_run_ends_as_expected(reference: Outcome) -> None:
    assert (reference.endings, reference.updates) == (ENDINGS, 3)


@pytest.mark.parametrize("step", series(range(1, STEPS + 1), 2, 3, 6, 9))
async def test_the_other_gatekeeper_finishes_what_a_step_asks_for(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path, reference: Outcome, step: int
) -> None:
    fuse = Fuse(step)
    async with open_cluster(connect, tmp_path, make_repository(), members=2) as cluster:
        assert await play(cluster, fuse) == reference
        assert fuse.burnt
        assert [member.dead for member in cluster.members].count(True) == 1


@pytest.mark.parametrize(
    "event",
    series(
        ("position_composed", "test_part_reported", "test_reported", "position_failed", "position_landed", "entry_left"),
        "position_landed",
    ),
)
async def test_work_that_was_done_and_not_stored_is_done_once(
    connect: Connect, make_repository: MakeRepository, tmp_path: Path, reference: Outcome, event: str
) -> None:
    """For a landing: the branch was moved, and the process ended before the queue knew."""
    fuse = Fuse(before=event)
    async with open_cluster(connect, tmp_path, make_repository(), members=2) as cluster:
        assert await play(cluster, fuse) == reference
        assert event in fuse.burnt
