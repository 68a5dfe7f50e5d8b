"""Two gatekeepers over one ledger: whatever they do at the same instant, a run has one history, one landing and one seal."""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import run_subject
from gatewright.clock import SystemClock
from gatewright.contracts import AbortRequest, TaskContract, Transition, codec
from gatewright.errors import UnavailableError
from gatewright.evidence import layout, writer
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.git.mirror import Mirrors
from gatewright.ledger.store import Ledger, Position
from gatewright.run.events import Landed
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, Submitted
from gatewright.services.gatekeeper.dispatch.dispatcher import TASK_QUEUES, UnderWay
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.dispatch import SharesPolicy
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.stalled_runs import StalledRuns
from tests.attacks.whole_gatekeeper import (
    KEY,
    RUN,
    Gatekeeper,
    contract_on,
    make_plan,
    make_result,
    make_review,
    make_tests,
    open_gatekeeper,
)
from tests.gatekeeper.dispatch.test_shares import commands, make_run
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository

__all__ = ["first_repository", "make_repository"]

BRANCH = f"refs/heads/gatewright/{RUN}"
ABORT = AbortReceived(AbortRequest(run_id=RUN, reason="enough", requested_by="tests"), "abort")


class DiedError(Exception):
    """The process is gone. Not an OSError: nothing may catch it."""


class DiesAfter(Ledger):
    """The process dies when a transition with this event is in the ledger, and nothing has been done about it yet."""

    event = ""

    async def append(self, position: Position, transition: Transition) -> Position:
        after = await super().append(position, transition)
        if any(record.event_type == self.event for record in transition.events):
            raise DiedError
        return after


class ClockOfTomorrow(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(days=1)


@dataclass
class Pair:
    """Two gatekeepers: the same bus and policies, each with its own memory, mirrors and folder of bundles."""

    first: Gatekeeper
    second: Orchestrator
    folder: Path

    @property
    def one(self) -> Orchestrator:
        return self.first.orchestrator

    async def advance(self, role: str, document: object, by: Orchestrator) -> None:
        await dataclasses.replace(self.first, orchestrator=by).answer(role, document)  # type: ignore[arg-type] # any answer

    async def run(self) -> Run:
        run = (await Ledger(self.first.bus).load(RUN)).run
        assert run is not None
        return run

    async def up_to_the_tests(self) -> None:
        """By the first alone."""
        gatekeeper = self.first
        await gatekeeper.submit(contract_on(gatekeeper.repository))
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
        await gatekeeper.review()

    def bundle(self, name: str) -> Path:
        return self.folder / name / RUN

    def verifies(self, name: str) -> bool:
        return verify(self.bundle(name), [keys.load(self.folder / "key.pem").public]).ok


def another(orchestrator: Orchestrator, folder: Path, *, ledger: Ledger | None = None, runs: str = "runs-2") -> Orchestrator:
    """One more gatekeeper on the same bus."""
    ledger = ledger or Ledger(orchestrator.bus)

    async def has_ended(run_id: str) -> bool:
        run = (await ledger.load(run_id)).run
        return run is None or run.ended

    gates = dataclasses.replace(
        orchestrator.gates, mirrors=Mirrors(folder / "mirrors-2"), locks=PathLocks(orchestrator.bus, has_ended)
    )
    return dataclasses.replace(
        orchestrator, ledger=ledger, gates=gates, bundles=BundleWriter(folder / runs), owed={}, turns=type(orchestrator.turns)()
    )


@pytest.fixture
async def pair(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Pair]:
    async with open_gatekeeper(make_repository(), tmp_path) as gatekeeper:
        yield Pair(gatekeeper, another(gatekeeper.orchestrator, tmp_path), tmp_path)


def submitted(document: TaskContract) -> Submitted:
    return Submitted(RUN, "0" * 32, document, "0" * 64, "submit", key=KEY)


async def test_a_simultaneous_submission_is_new_to_only_one_replica(pair: Pair) -> None:
    item = submitted(contract_on(pair.first.repository))
    answers = await asyncio.gather(pair.one.accept(item), pair.second.accept(item), pair.one.accept(item))
    assert sorted(answers) == [False, False, True]
    assert (await pair.run()).transitions == 1


async def test_an_answer_to_another_replicas_task_is_kept(pair: Pair) -> None:
    """The first remembers the run as it was before the second moved it; what comes then is for the run as it is now."""
    gatekeeper = pair.first
    await gatekeeper.submit(contract_on(gatekeeper.repository))
    await pair.advance("techlead", make_plan(await pair.run()), pair.second)
    remembered = pair.one.ledger.known(RUN)
    assert remembered is not None
    assert remembered.run is not None
    assert remembered.run.plan is None
    uri = await gatekeeper.bus.put_artifact(gatekeeper.patch({"README.md": b"changed\n"}))
    await pair.advance("worker", make_result(await pair.run(), uri), pair.one)
    assert (await pair.run()).state == "S3"


async def test_every_step_by_both_at_once_is_one_line_of_history(pair: Pair) -> None:
    gatekeeper = pair.first
    both = (pair.one, pair.second)
    item = submitted(contract_on(gatekeeper.repository))
    await asyncio.gather(*(each.advance(RUN, item) for each in both))
    plan = make_plan(await pair.run())
    await asyncio.gather(*(pair.advance("techlead", plan, each) for each in both))
    uri = await gatekeeper.bus.put_artifact(gatekeeper.patch({"README.md": b"changed\n"}))
    result = make_result(await pair.run(), uri)
    await asyncio.gather(*(pair.advance("worker", result, each) for each in both))
    review = make_review(await pair.run())
    await asyncio.gather(*(pair.advance("reviewer", review, each) for each in both))
    tests = make_tests(await pair.run())
    await asyncio.gather(*(pair.advance("testrunner", tests, each) for each in both))
    position = await Ledger(gatekeeper.bus).load(RUN)
    events = [record.event_type for step in position.transitions for record in step.events]
    assert (events.count("landed"), events.count("bundle_sealed"), events.count("run_accepted")) == (1, 1, 1)
    assert [step.number for step in position.transitions] == list(range(1, len(position.transitions) + 1))
    assert position.run is not None
    assert position.run.status == "SUCCESS"
    assert gatekeeper.repository.git("rev-list", "--count", f"main..{BRANCH}").strip() == b"1"
    assert pair.verifies("runs") or pair.verifies("runs-2")


async def test_an_abort_cannot_call_back_a_landing_that_has_begun(pair: Pair) -> None:
    """The ref has moved, the ledger does not know it yet, and the other gatekeeper is asked to abort the run."""
    await pair.up_to_the_tests()
    dying = DiesBefore(pair.first.bus)
    with pytest.raises(DiedError):
        await pair.advance("testrunner", make_tests(await pair.run()), another(pair.one, pair.folder, ledger=dying))
    assert pair.first.repository.exists(BRANCH)
    await pair.second.advance(RUN, ABORT)
    run = await pair.run()
    assert (run.status, run.sealed is not None) == ("SUCCESS", True)
    assert run.landed is not None
    assert run.landed.commit == pair.first.repository.head(BRANCH)


class DiesBefore(Ledger):
    """The process dies when a landing is to be recorded."""

    async def append(self, position: Position, transition: Transition) -> Position:
        if any(record.event_type == Landed.event_type for record in transition.events):
            raise DiedError
        return await super().append(position, transition)


async def test_a_replica_that_missed_the_end_does_not_land(pair: Pair) -> None:
    """The first believes that the tests have just passed; meanwhile the second has ended the run and let go of its paths."""
    await pair.up_to_the_tests()
    tests = make_tests(await pair.run())
    deaf = DiesAfter(pair.first.bus)
    deaf.event = "tests_received"
    with pytest.raises(DiedError):
        await pair.advance("testrunner", tests, another(pair.one, pair.folder, ledger=deaf))
    asleep = await pair.run()
    assert q.next_step(asleep) == "land"
    assert asleep.locks is not None
    await pair.second.gates.locks.release(asleep.locks.repository_url, RUN)
    verdict = await pair.one.gates.answer(q.LandingCheck(asleep))
    assert (verdict.passed, verdict.report.code) == (False, "locks_lost")
    assert pair.first.nothing_landed()


async def test_a_landing_that_others_have_built_upon_since_is_recognised(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    """It landed, the gatekeeper died before the ledger knew, and the owner went on working on that branch."""
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        pair = Pair(gatekeeper, another(gatekeeper.orchestrator, tmp_path), tmp_path)
        await pair.up_to_the_tests()
        dying = another(pair.one, tmp_path, ledger=DiesBefore(gatekeeper.bus))
        with pytest.raises(DiedError):
            await pair.advance("testrunner", make_tests(await pair.run()), dying)
        repository.git("reset", "--hard", "--quiet")
        repository.git("checkout", "--quiet", f"gatewright/{RUN}")
        repository.commit({"more.txt": b"more\n"})
        repository.git("checkout", "--quiet", "main")
        await LedgerFollower(pair.second).resume()
        run = await pair.run()
    assert run.status == "SUCCESS"
    assert run.landed is not None
    assert repository.git("rev-list", "--count", f"main..{BRANCH}").strip() == b"2"


@pytest.mark.parametrize("event", ["run_accepted", "plan_accepted", "locks_taken", "candidate_composed", "run_finished"])
async def test_what_one_began_and_left_the_other_finishes(pair: Pair, event: str) -> None:
    """Killed after any transition was stored and before anything was done about it; it does not come back."""
    ledger = DiesAfter(pair.first.bus)
    ledger.event = event
    dying = dataclasses.replace(pair.first, orchestrator=another(pair.one, pair.folder, ledger=ledger))
    steps = iter((dying.plan, lambda: dying.work(dying.patch({"README.md": b"changed\n"})), dying.review, dying.test))

    async def live() -> None:
        await dying.submit(contract_on(pair.first.repository))
        for step in steps:
            await step()

    with pytest.raises(DiedError):
        await live()
    await LedgerFollower(pair.second).resume()
    alive = dataclasses.replace(pair.first, orchestrator=pair.second)
    for step in (alive.plan, lambda: alive.work(alive.patch({"README.md": b"changed\n"})), alive.review, alive.test):
        run = await pair.run()
        if not run.ended and any(task.status == "RUNNING" for task in run.tasks.values()):
            with_task = {"S1": alive.plan, "S3": alive.review, "S4": alive.test}.get(run.state)
            await (with_task or step)()
    run = await pair.run()
    assert (run.status, run.sealed is not None) == ("SUCCESS", True)
    assert pair.verifies("runs-2")


async def test_only_a_stalled_run_is_taken_over(pair: Pair) -> None:
    ledger = DiesAfter(pair.first.bus)
    ledger.event = "run_accepted"
    with pytest.raises(DiedError):
        await another(pair.one, pair.folder, ledger=ledger).accept(submitted(contract_on(pair.first.repository)))
    follower = LedgerFollower(pair.second, StalledRuns(lambda: 1.0, quiet=60.0))
    await follower.catch_up()
    follower.runs.closed(RUN)
    following = asyncio.create_task(follower.follow())
    follower._ends.clear()
    await asyncio.sleep(0.05)
    await follower.look()
    assert await tasks(pair.first.bus) == []
    follower.runs.everything_is_due(pair.second.clock.monotonic())
    await follower.look()
    assert await tasks(pair.first.bus) == [f"{RUN}.plan"]
    following.cancel()


async def tasks(bus: MemoryBus) -> list[str]:
    return [message.headers["Nats-Msg-Id"] for message in [found async for found in bus.unsettled("gw.task.>")]]


async def test_a_waiting_task_is_never_dispatched_twice(pair: Pair) -> None:
    await pair.first.submit(contract_on(pair.first.repository))
    late = dataclasses.replace(pair.second, clock=ClockOfTomorrow())
    published = len(await tasks(pair.first.bus))
    forget_ids(pair.first.bus)
    await LedgerFollower(late).resume()
    assert len(await tasks(pair.first.bus)) == published == 1


async def test_a_task_with_an_unread_answer_is_not_dispatched_again(pair: Pair) -> None:
    await pair.first.submit(contract_on(pair.first.repository))
    bus = pair.first.bus
    plan = make_plan(await pair.run())
    await take_all_tasks(bus)
    forget_ids(bus)
    under_way = UnderWay(bus)
    assert not await under_way.holds(RUN, plan.task_id)
    await bus.publish("gw.result.techlead", codec.encode(plan), schema="plan.v1", message_id="answer")
    await bus.publish("gw.result.techlead", b"nonsense", schema="plan.v1", message_id="nonsense")
    assert await UnderWay(bus).holds(RUN, plan.task_id)
    await LedgerFollower(dataclasses.replace(pair.second, clock=ClockOfTomorrow())).resume()
    assert await tasks(bus) == []


async def test_a_task_that_got_lost_is_given_out_again(pair: Pair) -> None:
    await pair.first.submit(contract_on(pair.first.repository))
    await take_all_tasks(pair.first.bus)
    forget_ids(pair.first.bus)
    await LedgerFollower(dataclasses.replace(pair.second, clock=ClockOfTomorrow())).resume()
    assert await tasks(pair.first.bus) == [f"{RUN}.plan"]


async def take_all_tasks(bus: MemoryBus) -> None:
    stream = bus.server.stream("gw.task.techlead.default.normal")
    for message in [found async for found in bus.unsettled("gw.task.>")]:
        stream.settle(message.sequence)


def forget_ids(bus: MemoryBus) -> None:
    """As the server does after its window of two minutes."""
    bus.server.stream("gw.task.techlead.default.normal")._seen.clear()


async def test_two_replicas_write_one_seal_and_identical_folders(pair: Pair) -> None:
    await pair.up_to_the_tests()
    ledger = DiesAfter(pair.first.bus)
    ledger.event = "run_finished"
    with pytest.raises(DiedError):
        await pair.advance("testrunner", make_tests(await pair.run()), another(pair.one, pair.folder, ledger=ledger))
    await asyncio.gather(LedgerFollower(pair.one).resume(), LedgerFollower(pair.second).resume())
    position = await Ledger(pair.first.bus).load(RUN)
    events = [record.event_type for step in position.transitions for record in step.events]
    assert events.count("bundle_sealed") == 1
    assert pair.verifies("runs")
    assert pair.verifies("runs-2")
    for path in sorted(pair.bundle("runs").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (pair.bundle("runs-2") / path.relative_to(pair.bundle("runs"))).read_bytes()


async def test_a_bundle_that_another_key_has_sealed_first_is_withdrawn(pair: Pair) -> None:
    """Two signed bundles of one run, only one of which the ledger speaks of, would be one too many."""
    await pair.up_to_the_tests()
    stranger = dataclasses.replace(pair.second, signer=Signer(keys.load_or_create(pair.folder / "another.pem")))
    ledger = DiesAfter(pair.first.bus)
    ledger.event = "run_finished"
    with pytest.raises(DiedError):
        await pair.advance("testrunner", make_tests(await pair.run()), another(pair.one, pair.folder, ledger=ledger))
    ended = await pair.run()
    await LedgerFollower(pair.one).resume()
    await stranger._seal(ended)
    assert pair.verifies("runs")
    left = {path.name for path in pair.bundle("runs-2").iterdir()}
    assert left & {layout.MANIFEST, *layout.ENVELOPES} == set()


async def test_a_folder_of_a_stuck_gatekeeper_blocks_others_only_briefly(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "APPEND_PATIENCE", 0.02)
    monkeypatch.setattr(writer, "SEAL_PATIENCE", 0.05)
    pair.bundle("runs").mkdir(parents=True)
    held = os.open(pair.bundle("runs"), os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    await pair.up_to_the_tests()
    run = await pair.first.test()
    assert (run.status, run.sealed) == ("SUCCESS", None)
    assert list(pair.one.owed) == [RUN]
    with pytest.raises(UnavailableError):
        await pair.one.bundles.withdraw(RUN, "0" * 64)
    os.close(held)
    await pair.one.pay_debts()
    assert pair.one.owed == {}
    assert pair.verifies("runs")


async def test_what_is_owed_is_paid_when_another_has_sealed_it(pair: Pair) -> None:
    runs = pair.folder / "runs"
    runs.touch()  # a file where the folder should be: nothing can be written
    run = await pair.first.submit(contract_on(pair.first.repository, allowed_paths=("../outside",)))
    assert run.status == "FAILED"
    assert list(pair.one.owed) == [RUN]
    await LedgerFollower(pair.second).resume()
    assert (await pair.run()).sealed is not None
    await pair.one.pay_debts()
    assert pair.one.owed == {}


async def test_nothing_is_remembered_of_a_run_that_another_has_sealed(pair: Pair) -> None:
    await pair.first.submit(contract_on(pair.first.repository))
    follower = LedgerFollower(pair.one)
    following = asyncio.create_task(follower.follow())
    await pair.second.advance(RUN, ABORT)
    await asyncio.sleep(0.05)
    following.cancel()
    assert pair.one.ledger.known(RUN) is None
    assert len(follower.runs) == 0


async def test_a_run_that_cannot_be_read_holds_up_no_other(pair: Pair) -> None:
    await pair.first.bus.publish(run_subject("run-damaged00"), b"torn", schema="transition.v1", message_id="torn")
    ledger = DiesAfter(pair.first.bus)
    ledger.event = "run_accepted"
    with pytest.raises(DiedError):
        await another(pair.one, pair.folder, ledger=ledger).accept(submitted(contract_on(pair.first.repository)))
    await LedgerFollower(pair.second).resume()
    assert await tasks(pair.first.bus) == [f"{RUN}.plan"]


@pytest.mark.parametrize("bounded", [True, False])
async def test_capacity_freed_by_another_replica_serves_waiting_tasks(*, bounded: bool, pair: Pair) -> None:
    """One task at a time of a repository: the first gatekeeper's run has it, and one of the second's waits for it."""
    gatekeeper, here = pair.first, pair.second.dispatcher
    await gatekeeper.submit(contract_on(gatekeeper.repository))
    await gatekeeper.plan()
    at_work = await pair.run()
    here.shares.policy = SharesPolicy(version="1", tasks_per_repository=1 if bounded else None)
    here.shares.take(at_work, *(task.task_id for task in at_work.workers()))
    rival = make_run(2, 1)
    accepted = msgspec.structs.replace(
        rival.accepted,
        repository_url=at_work.accepted.repository_url,
        repository_identity=at_work.accepted.repository_identity,
    )
    rival = msgspec.structs.replace(rival, accepted=accepted)

    async def given_out() -> list[str]:
        found = [message.headers["Nats-Msg-Id"] async for message in gatekeeper.bus.unsettled(TASK_QUEUES)]
        return [each for each in found if each.startswith(rival.run_id)]

    await here.give(rival, commands(rival))
    assert await given_out() == ([] if bounded else [f"{rival.run_id}.w00"])
    await pair.second.moved_elsewhere(RUN)
    assert await given_out() == ([] if bounded else [f"{rival.run_id}.w00"])  # it moved, and its task is at work as before
    await gatekeeper.work(gatekeeper.patch({"README.md": b"changed\n"}))
    await pair.second.moved_elsewhere(RUN)
    assert await given_out() == [f"{rival.run_id}.w00"]
