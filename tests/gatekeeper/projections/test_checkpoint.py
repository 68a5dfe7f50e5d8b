"""A start from a checkpoint knows what a start from the whole ledger knows, and reads next to nothing of it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryServer
from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.contracts import RunsRequest, Transition, codec
from gatewright.ledger.expiry import expire
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections import checkpoint as checkpoint_module
from gatewright.services.gatekeeper.projections import follower as follower_module
from gatewright.services.gatekeeper.projections.checkpoint import Checkpoint, LedgerPosition, digest_of
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.memory_index import MemoryIndex
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from tests.attacks.whole_gatekeeper import contract_on, open_gatekeeper
from tests.client.conftest import write_run
from tests.gatekeeper.projections.test_history import Counted, history_of
from tests.gatekeeper.projections.test_memory import end, policies_with_memory, remembering, run_id
from tests.gatekeeper.publishing import HandClock
from tests.gatekeeper.test_replicas import another
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

RUNS = 12


@dataclass
class Start:
    """One start of a gatekeeper after another, on the same ledger and the same folder."""

    orchestrator: Orchestrator
    folder: Path
    opened: list[Checkpoint] = field(default_factory=list)
    #: Whether runs count for their publishers; where they do not, most concern nothing but lists once they are settled.
    counting: bool = True

    async def __call__(self, *, recalling: bool = True) -> LedgerFollower:
        checkpoint = Checkpoint.in_folder(self.folder) if recalling else None
        publishers = PublisherRuns(HandClock(), frozenset({"default"} if self.counting else ()))
        follower = LedgerFollower(self.orchestrator, publishers=publishers, memories=MemoryIndex(), checkpoint=checkpoint)
        self.opened += [] if checkpoint is None else [checkpoint]
        await follower.catch_up()
        return follower

    @property
    def bus(self) -> Counted:
        assert isinstance(self.orchestrator.bus, Counted)
        return self.orchestrator.bus

    async def write(self, steps: Sequence[Transition]) -> None:
        await write_run(self.bus, steps)

    @property
    def file(self) -> Path:
        return self.folder / "0.checkpoint"


@pytest.fixture(params=[(1, True), (3, False)], ids=["one-stream", "three-streams-nothing-counted"])
async def start(
    request: pytest.FixtureRequest, make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    monkeypatch.setattr(follower_module, "EVERY", 7)
    partitions, counting = request.param
    bus = Counted(MemoryServer(partitions=partitions))
    await ensure_topology(bus)
    async with open_gatekeeper(make_repository(), tmp_path) as gatekeeper:
        orchestrator = dataclasses.replace(another(gatekeeper.orchestrator, tmp_path), bus=bus)
        starts = Start(orchestrator, tmp_path / "ledger", counting=counting)
        yield starts
        for checkpoint in starts.opened:
            checkpoint.close()
    await bus.close()


def known(follower: LedgerFollower) -> tuple[object, ...]:
    """What the projections know, in a form that can be compared."""
    publishers, memories = follower.publishers, follower.memories
    assert publishers is not None
    assert memories is not None
    return (
        sorted(follower.seen),
        follower.index.page(RunsRequest(limit=100), lambda _: True),
        frozenset(follower.approvals.runs(open_only=False)),
        tuple(follower.approvals.runs(open_only=True)),
        publishers.open("default"),
        publishers.begun("default"),
        memories._entries,
        memories._open,
        follower.runs.due(float("inf")),
        len(follower.deadlines),
        len(follower.silent),
    )


def run_of(number: int) -> list[Transition]:
    """Each run a minute after the one before; one in three has asked people something."""
    when = f"2026-01-02T00:{number:02}:".encode()
    steps = [codec.encode(step).replace(b"2026-01-02T00:00:", when) for step in history_of(number)]
    if number % 3 == 0:
        steps = [step.replace(b'"locks_taken"', b'"approval_requested"') for step in steps]
    return [codec.decode(step, Transition) for step in steps]


def mixed(seed: int) -> list[Transition]:
    """Runs beside one another, accepted in their order and settled in another."""
    waiting, begun = [run_of(number) for number in range(RUNS)], list[list[Transition]]()
    mixer, steps = random.Random(seed), list[Transition]()  # noqa: S311 - it mixes, it keeps no secret
    while waiting or begun:
        if waiting and (len(begun) < 2 or (len(begun) < 5 and mixer.random() < 0.2)):
            begun.append(waiting.pop(0))
            run = begun[-1]
        else:
            run = mixer.choice(begun)
        steps.append(run.pop(0))
        begun = [each for each in begun if each]
    return steps


async def test_a_start_reads_what_came_after_the_checkpoint_alone(start: Start) -> None:
    for number in range(RUNS):
        await start.write(history_of(number))
    (await start()).close()
    start.bus.read = 0
    await start.write(history_of(RUNS))
    follower = await start()
    assert start.bus.read == len(history_of(RUNS))
    assert known(follower) == known(await start(recalling=False))


@pytest.mark.parametrize("seed", range(4))
async def test_a_start_from_any_point_knows_the_complete_ledger(start: Start, seed: int) -> None:
    steps = mixed(seed)
    cuts = sorted(random.Random(seed).sample(range(1, len(steps)), 6))  # noqa: S311 - it chooses, it keeps no secret
    for first, last in zip([0, *cuts], [*cuts, len(steps)], strict=True):
        await start.write(steps[first:last])
        follower = await start()
        assert known(follower) == known(await start(recalling=False))
        if last % 2:
            follower.close()
        else:  # it dies
            assert follower.checkpoint is not None
            follower.checkpoint.close()


async def test_an_altered_or_truncated_checkpoint_yields_nothing_false(start: Start) -> None:
    steps = mixed(9)
    await start.write(steps[: len(steps) // 2])
    (await start()).close()
    await start.write(steps[len(steps) // 2 :])
    plain, truth = start.file.read_bytes(), known(await start(recalling=False))
    places = random.Random(1).sample(range(len(plain)), 60)  # noqa: S311 - it chooses, it keeps no secret
    for place in places:
        for damaged in (plain[:place], plain[:place] + bytes([plain[place] ^ 0x15]) + plain[place + 1 :]):
            start.file.write_bytes(damaged)
            follower = await start()
            assert known(follower) == truth
            follower.close()
    assert known(await start()) == truth


async def test_a_whole_file_that_means_something_else_is_thrown_away(start: Start) -> None:
    """As of a version that forgot to give its form another name."""
    await start.write(history_of(1))
    (await start()).close()
    runs, told = b'[["odd"]]\n', start.file.read_bytes().rpartition(b"position ")[2].split(b" ", 1)[1].rstrip(b"\n")
    chain = checkpoint_module._link(checkpoint_module._BEGINNING, runs, told)
    start.file.write_bytes(runs + b"position " + chain.encode() + b" " + told + b"\n")
    start.bus.read = 0
    follower = await start()
    assert start.bus.read == len(history_of(1))
    assert known(follower) == known(await start(recalling=False))
    follower.close()
    start.bus.read = 0
    (await start()).close()
    assert start.bus.read == 0


async def test_a_checkpoint_of_another_ledger_is_thrown_away(start: Start) -> None:
    await start.write(history_of(1))
    (await start()).close()
    steps = [step for number in (7, 8) for step in history_of(number)]
    other = Counted(MemoryServer())
    await ensure_topology(other)
    elsewhere = Start(dataclasses.replace(start.orchestrator, bus=other), start.folder, start.opened)
    await elsewhere.write(steps)
    follower = await elsewhere()
    assert other.read == len(steps)
    assert known(follower) == known(await elsewhere(recalling=False))
    follower.close()
    other.read = 0
    (await elsewhere()).close()
    assert other.read == 0
    await other.close()


async def test_a_ledger_that_has_lost_its_end_is_read_whole(start: Start) -> None:
    await start.write(history_of(1))
    checkpoint = Checkpoint.in_folder(start.folder)
    assert checkpoint is not None
    checkpoint.mark(LedgerPosition(10_000, digest_of(Message(run_subject("x"), b"{}"))))
    checkpoint.close()
    follower = await start()
    assert known(follower) == known(await start(recalling=False))
    assert start.bus.read == 2 * len(history_of(1))


async def test_two_gatekeepers_in_one_home_have_a_file_each(start: Start) -> None:
    await start.write(history_of(1))
    one, other = await start(), await start()
    assert sorted(file.name for file in start.folder.iterdir()) == ["0.checkpoint", "1.checkpoint"]
    assert known(one) == known(other)
    one.close()
    again = Checkpoint.in_folder(start.folder)
    assert again is not None
    assert again.position is not None
    assert (again.position.sequence,) == one.seen
    again.close()


async def test_a_disk_that_takes_nothing_costs_the_next_start_some_time_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Checkpoint, _position: LedgerPosition) -> None:
        raise OSError(28, "No space left on device")

    await start.write(history_of(1))
    monkeypatch.setattr(Checkpoint, "mark", full)
    follower = await start()
    assert follower.checkpoint is None
    assert known(follower) == known(await start(recalling=False))


async def test_outcomes_and_expired_runs_are_restored(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    policies = policies_with_memory(tmp_path, entries=8)
    async with open_gatekeeper(repository, tmp_path, policies=policies) as gatekeeper:
        orchestrator = remembering(gatekeeper)
        start = Start(orchestrator, tmp_path / "ledger", counting=False)
        for number in range(3):
            await end(orchestrator, contract_on(repository), number)
        (await start()).close()
        for number, when in ((0, "before"), (1, "after")):
            position = await orchestrator.ledger.load(run_id(number))
            assert position.run is not None
            await orchestrator.ledger.append(position, expire(position.run, datetime.now(UTC), "tests", when))
            for sequence in position.sequences:
                await orchestrator.bus.remove("RUNS", sequence)
            follower = await start()
            assert known(follower) == known(await start(recalling=False))
            assert follower.memories is not None
            assert [entry.run_id for entries in follower.memories._entries.values() for entry in entries] == [
                run_id(later) for later in range(number + 1, 3)
            ]
            follower.close()
        for checkpoint in start.opened:
            checkpoint.close()
