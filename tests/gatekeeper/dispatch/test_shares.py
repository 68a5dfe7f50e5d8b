"""Shares of repositories and publishers, on the real dispatcher: bounds hold, what waits is given out, in fair order."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import PublishAck
from gatewright.bus.topology import STREAMS, consumers
from gatewright.contracts.records import CommandRef
from gatewright.contracts.vocabulary import Repository
from gatewright.errors import BusError, ConfigurationError
from gatewright.resources import policy_directory
from gatewright.run.state import Run, RunTask, TaskStatus
from gatewright.services.gatekeeper.dispatch.dispatcher import TASK_QUEUES, Dispatcher, UnderWay
from gatewright.services.gatekeeper.dispatch.shares import FairShares
from gatewright.services.gatekeeper.policies.dispatch import NO_SHARES, SharesPolicy
from gatewright.services.gatekeeper.policies.load import load
from tests.factories import BASELINE, BASELINE_TREE, make_contract
from tests.gatekeeper.publishing import HandClock
from tests.gatekeeper.recorded import make_open_run


def make_run(number: int, parts: int, repository: str = "one", publisher: str = "default") -> Run:
    run_id = f"run-{number:010}"
    contract = make_contract(run_id, repository=Repository(url=f"/srv/{repository}"))
    begun = make_open_run(run_id, contract, BASELINE, BASELINE_TREE)
    accepted = msgspec.structs.replace(begun.accepted, repository_url=f"/srv/{repository}", publisher=publisher)
    ids = [f"{run_id}.w{part:02}" for part in range(parts)]
    tasks = {each: RunTask(each, "worker", "default", "RUNNING", 1, contract) for each in ids}
    return Run(run_id, begun.trace_id, accepted, state="S2", contract=contract, tasks=tasks)


def commands(run: Run) -> list[CommandRef]:
    return [CommandRef(role="worker", pool="default", task_id=task_id) for task_id in run.tasks]


def bounds(repository: int | None = None, publisher: int | None = None, **weights: float) -> SharesPolicy:
    return SharesPolicy(version="1", tasks_per_repository=repository, tasks_per_publisher=publisher, weights=weights)


@dataclass
class World:
    """A dispatcher on a bus, runs, and roles that finish the tasks that a test names."""

    policy: SharesPolicy
    runs: dict[str, Run] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        server = MemoryServer()
        server.ensure(STREAMS, consumers())
        self.bus = MemoryBus(server)
        self.dispatcher = Dispatcher(self.bus, self.policy)

    async def given_out(self) -> list[str]:
        """Ids of the tasks on the bus, in the order in which they came there."""
        return [message.headers["Nats-Msg-Id"] async for message in self.bus.unsettled(TASK_QUEUES)]

    async def in_flight(self) -> list[str]:
        return [each for each in await self.given_out() if each not in self.done and not self.run_of(each).ended]

    def run_of(self, task_id: str) -> Run:
        return self.runs[task_id.rpartition(".")[0]]

    async def begin(self, run: Run) -> None:
        self.runs[run.run_id] = run
        await self.dispatcher.give(run, commands(run))

    async def finish(self, task_id: str, status: TaskStatus = "SUCCESS") -> None:
        self.done.add(task_id)
        run = self.run_of(task_id)
        tasks = {**run.tasks, task_id: RunTask(task_id, "worker", "default", status, 1, run.contract)}
        await self._moved(Run(run.run_id, run.trace_id, run.accepted, run.state, tasks=tasks, contract=run.contract))

    async def abort(self, run_id: str) -> None:
        run = self.runs[run_id]
        await self._moved(Run(run_id, run.trace_id, run.accepted, "ABORTED", tasks=run.tasks, contract=run.contract))

    async def _moved(self, run: Run) -> None:
        self.runs[run.run_id] = run
        await self.dispatcher.give(run, ())

    async def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        repositories: dict[str, int] = {}
        publishers: dict[str, int] = {}
        for task_id in await self.in_flight():
            accepted = self.run_of(task_id).accepted
            repositories[accepted.repository_key] = repositories.get(accepted.repository_key, 0) + 1
            publishers[accepted.publisher] = publishers.get(accepted.publisher, 0) + 1
        return repositories, publishers


BOUND = st.one_of(st.none(), st.integers(1, 5))
POLICIES = st.builds(SharesPolicy, version=st.just("1"), tasks_per_repository=BOUND, tasks_per_publisher=BOUND)
BEGIN = st.tuples(st.just("begin"), st.integers(1, 8), st.sampled_from("ab"), st.sampled_from("xy"))
STEPS = st.lists(
    st.one_of(BEGIN, st.just(("finish",)), st.just(("abort",)), st.tuples(st.just("policy"), POLICIES)), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(policy=POLICIES, steps=STEPS, seed=st.integers(0, 1000))
def test_bounds_hold_and_every_waiting_task_is_dispatched_once(
    policy: SharesPolicy, steps: list[tuple[object, ...]], seed: int
) -> None:
    asyncio.run(_bounds_hold(policy, steps, random.Random(seed)))  # noqa: S311 - which task is finished next


async def _bounds_hold(policy: SharesPolicy, steps: list[tuple[object, ...]], chance: random.Random) -> None:
    world = World(policy)
    for number, step in enumerate(steps):
        before = await world.counts()
        match step:
            case ("begin", int(parts), str(repository), str(publisher)):
                await world.begin(make_run(number, parts, repository, publisher))
            case ("finish",) if under_way := await world.in_flight():
                await world.finish(chance.choice(under_way))
            case ("abort",) if open_runs := [run_id for run_id, run in world.runs.items() if not run.ended]:
                await world.abort(chance.choice(open_runs))
            case ("policy", SharesPolicy() as policy):
                world.dispatcher.shares.policy = policy
                await world.dispatcher.give_waiting()
        limits = (policy.tasks_per_repository, policy.tasks_per_publisher)
        for counted, known, limit in zip(await world.counts(), before, limits, strict=True):
            for key, tasks in counted.items():
                assert limit is None or tasks <= max(limit, known.get(key, 0)), (key, step)
    while under_way := await world.in_flight():
        await world.finish(chance.choice(under_way))
    wanted = [task_id for run in world.runs.values() if not run.ended for task_id in run.tasks]
    given_out = await world.given_out()
    assert sorted(each for each in given_out if not world.run_of(each).ended) == sorted(wanted)
    assert len(set(given_out)) == len(given_out)
    assert world.dispatcher.shares.waiting == 0


@pytest.mark.parametrize("repository", ["one", "other"])
async def test_a_small_run_precedes_sixty_shards_of_its_repository(repository: str) -> None:
    world = World(bounds(repository=4, publisher=4))
    await world.begin(make_run(1, 60))
    await world.begin(make_run(2, 1, repository))
    assert len(await world.given_out()) == 4
    await world.finish((await world.given_out())[0])
    assert (await world.given_out())[-1] == "run-0000000002.w00", "the first place that came free is its"


async def test_a_publisher_of_twice_the_weight_is_given_two_tasks_for_one() -> None:
    world = World(bounds(repository=1, heavy=2.0))
    await world.begin(make_run(1, 1))
    await world.begin(make_run(2, 40, publisher="light"))
    await world.begin(make_run(3, 40, publisher="heavy"))
    while len(given_out := await world.given_out()) < 31:
        await world.finish(given_out[-1])
    heavy = sum(world.run_of(each).publisher == "heavy" for each in given_out)
    assert 19 <= heavy <= 21


def test_a_task_that_needs_two_busy_places_does_not_starve() -> None:
    """Its repository and its publisher are never free at the same moment, unless a place is kept."""
    shares = FairShares(bounds(repository=1, publisher=1))
    shares.ask(one := make_run(1, 1, "a", "x"), commands(one)[0])
    shares.ask(two := make_run(2, 1, "b", "y"), commands(two)[0])
    assert [task.run_id for task in shares.next_ones()] == [one.run_id, two.run_id]
    shares.ask(patient := make_run(3, 1, "a", "y"), commands(patient)[0])
    for number in range(4, 100):
        ended, repository, publisher = (one, "a", "x") if number % 2 else (two, "b", "y")
        shares.ask(rival := make_run(number, 1, repository, publisher), commands(rival)[0])
        shares.forget(ended.run_id)
        given_out = [task.run_id for task in shares.next_ones()]
        if patient.run_id in given_out:
            return
        one, two = (rival, two) if number % 2 else (one, rival)
    raise AssertionError("it was passed over by every rival")


async def test_what_the_bus_did_not_take_waits_again_where_it_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(bounds(repository=2))
    publish = world.bus.publish
    monkeypatch.setattr(world.bus, "publish", _away)
    with pytest.raises(BusError):
        await world.begin(make_run(1, 3))
    assert world.dispatcher.shares.waiting == 3
    monkeypatch.setattr(world.bus, "publish", publish)
    await world.dispatcher.give_waiting()
    assert await world.given_out() == ["run-0000000001.w00", "run-0000000001.w01"]


async def test_a_run_that_ends_during_a_bus_outage_dispatches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another gatekeeper ended and sealed it: what this one was about to give out has no run any more."""
    world = World(bounds(repository=2))
    run = make_run(1, 3)

    async def end_and_refuse(*_arguments: object, **_named: object) -> None:
        world.dispatcher.forget(run.run_id)
        raise BusError("the server is away", code="bus_no_answer")

    with monkeypatch.context() as patched:
        patched.setattr(world.bus, "publish", end_and_refuse)
        with pytest.raises(BusError):
            await world.begin(run)
    await world.dispatcher.give_waiting()
    assert await world.given_out() == []
    assert world.dispatcher.shares.waiting == 0


async def test_a_run_forgotten_while_its_task_is_published_stays_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(NO_SHARES)
    run, publish, published = make_run(1, 1), world.bus.publish, 0

    async def forget_and_publish(*arguments: Any, **named: Any) -> PublishAck:
        nonlocal published
        published += 1
        world.dispatcher.forget(run.run_id)
        return await publish(*arguments, **named)

    monkeypatch.setattr(world.bus, "publish", forget_and_publish)
    await world.begin(run)
    [lying] = [message async for message in world.bus.unsettled(TASK_QUEUES)]
    await world.bus.remove("TASKS", lying.sequence)
    await world.dispatcher.give_missing(run, (), HandClock().now(), UnderWay(world.bus))
    assert published == 2, "what is forgotten is looked for anew"


async def _away(*_arguments: object, **_named: object) -> None:
    raise BusError("the server is away", code="bus_no_answer")


async def test_a_starting_gatekeeper_counts_claimed_tasks_and_dispatches_waiting_ones() -> None:
    world = World(bounds(repository=2))
    run = make_run(1, 5)
    await world.begin(run)
    world.dispatcher = Dispatcher(world.bus, world.policy)
    await world.dispatcher.give_missing(run, (), HandClock().now(), UnderWay(world.bus))
    assert len(await world.given_out()) == 2
    for _ in range(5):
        await world.finish((await world.in_flight())[0])
    assert sorted(await world.given_out()) == sorted(run.tasks)


class _AskedInTurns(UnderWay):
    """Whoever asks lets the others go on, the later runs fewer times."""

    async def holds(self, run_id: str, task_id: str) -> bool:
        for _ in range(9 - int(run_id[-1])):
            await asyncio.sleep(0)
        return await super().holds(run_id, task_id)


async def test_a_starting_gatekeeper_takes_over_runs_during_dispatch_by_others() -> None:
    world = World(NO_SHARES)
    runs = [make_run(number, 4) for number in range(6)]
    under_way, now = _AskedInTurns(world.bus), HandClock().now()
    await asyncio.gather(*(world.dispatcher.give_missing(run, (), now, under_way) for run in runs))
    assert sorted(await world.given_out()) == sorted(task_id for run in runs for task_id in run.tasks)


async def test_without_a_policy_nothing_waits() -> None:
    world = World(NO_SHARES)
    await world.begin(make_run(1, 60))
    assert len(await world.given_out()) == 60


@pytest.mark.parametrize("fields", [{"tasks_per_repository": 0}, {"weights": {"a": 0}}, {"per_hour": 3}])
def test_a_file_of_shares_that_is_wrong_stops_the_gatekeeper_by_name(fields: dict[str, object], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (folder / "shares.json").write_text(json.dumps({"version": "1", **fields}))
    with pytest.raises(ConfigurationError, match=r"shares\.json"):
        load(folder)
