"""Who is served first: the priority of a run, and what large runs and busy repositories leave to others."""

from __future__ import annotations

import asyncio
import io

import pytest

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import STREAMS, consumers, task_subject
from gatewright.clock import SystemClock
from gatewright.contracts import TaskContract
from gatewright.contracts.records import CommandRef
from gatewright.contracts.vocabulary import Document, Priority, Repository
from gatewright.run.events import RECORDING, RunAccepted
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.dispatch.dispatcher import Dispatcher
from gatewright.services.gatekeeper.dispatch.priority import REPOSITORY_SHARE, RUN_SHARE, InFlight, class_of
from gatewright.tasks.runner import Runner, TaskContext
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import BASELINE, BASELINE_TREE, make_contract
from tests.tasks.role_at_work import make_result
from tests.waiting import PATIENCE


def make_run(number: int, shards: int, *, repository: str = "/srv/project", priority: Priority = "normal") -> Run:
    """A run whose worker tasks are all given out."""
    run_id = f"run-{number:010}"
    contract = make_contract(run_id, priority=priority, repository=Repository(url=repository))
    accepted = RunAccepted(
        user_request="a change",
        requested_by="tests",
        repository_url=repository,
        submitted_sha256="0" * 64,
        policy_sha256="0" * 64,
        versions={},
        publisher="default",
        document_sha256="0" * 64,
        idempotency_key="key",
        orderers=(),
        recording=RECORDING,
        baseline_commit=BASELINE,
        baseline_tree=BASELINE_TREE,
        contract=contract,
    )
    ids = [f"{run_id}.plan.w{shard:02}" for shard in range(1, shards + 1)]
    tasks = {each: RunTask(each, "worker", "default", "RUNNING", 1, make_contract(run_id, task_id=each)) for each in ids}
    return Run(run_id, "a" * 32, accepted, "S2", tasks=tasks, contract=contract)


def classes(run: Run, of_others: int = 0) -> list[str]:
    return [class_of(run, task_id, of_others) for task_id in run.tasks]


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_a_small_run_gets_what_it_asks_for(priority: Priority) -> None:
    assert classes(make_run(1, RUN_SHARE, priority=priority)) == [priority] * RUN_SHARE


def test_a_large_run_keeps_its_priority_for_its_first_tasks_only() -> None:
    assert classes(make_run(1, 60)) == ["normal"] * 4 + ["low"] * 56
    assert classes(make_run(1, 60, priority="high")) == ["high"] * 4 + ["normal"] * 16 + ["low"] * 40
    assert set(classes(make_run(1, 60, priority="low"))) == {"low"}


def test_tasks_that_are_done_make_room() -> None:
    run = make_run(1, 6)
    tasks = dict(run.tasks)
    for task_id in list(tasks)[:4]:
        task = tasks[task_id]
        tasks[task_id] = RunTask(task_id, task.role, task.pool, "SUCCESS", 1, task.contract)
    later = Run(run.run_id, run.trace_id, run.accepted, "S2", tasks=tasks, contract=run.contract)
    assert classes(later)[4:] == ["normal", "normal"]


def test_many_small_runs_on_one_repository_count_together() -> None:
    seen = InFlight()
    runs = [make_run(number, 1) for number in range(2 * REPOSITORY_SHARE)]
    found = []
    for run in runs:
        seen.saw(run)
        found += classes(run, seen.of_others(run, "worker"))
    assert found == ["normal"] * REPOSITORY_SHARE + ["low"] * REPOSITORY_SHARE
    other = make_run(99, 1, repository="/srv/other")
    assert seen.of_others(other, "worker") == 0
    assert seen.of_others(runs[0], "reviewer") == 0


def test_runs_that_are_over_count_no_more() -> None:
    seen = InFlight()
    one, other = make_run(1, 5), make_run(2, 1)
    seen.saw(one)
    assert seen.of_others(other, "worker") == RUN_SHARE
    seen.saw(Run(one.run_id, one.trace_id, one.accepted, "FAILED", tasks=one.tasks))
    assert seen.of_others(other, "worker") == 0
    seen.forget(one.run_id)


def test_a_large_run_leaves_a_small_ones_repository_share() -> None:
    seen = InFlight()
    large, small = make_run(1, 60), make_run(2, RUN_SHARE)
    seen.saw(large)
    assert classes(small, seen.of_others(small, "worker")) == ["normal"] * RUN_SHARE


@pytest.mark.parametrize("repository", ["/srv/other", "/srv/project"])
async def test_a_small_run_overtakes_an_earlier_large_one(repository: str) -> None:
    """60 shards of one repository, then one task of another or of the same, and one worker."""
    server = MemoryServer()
    server.ensure(STREAMS, consumers())
    bus, done, stop = MemoryBus(server), list[str](), asyncio.Event()
    dispatcher = Dispatcher(bus)
    for run in (make_run(1, 60), make_run(2, 1, repository=repository)):
        await dispatcher.give(run, [CommandRef(role="worker", pool="default", task_id=task_id) for task_id in run.tasks])

    class Worker:
        async def handle(self, task: TaskContract, _context: TaskContext) -> Document:
            done.append(task.task_id)
            if len(done) == 61:
                stop.set()
            return make_result(task)

    runner = Runner("worker", Worker(), bus, clock=SystemClock(), log=make_logger(io.BytesIO()), metrics=Metrics("worker"))
    await asyncio.wait_for(runner.run(stop), PATIENCE)
    assert len(set(done)) == 61
    assert done.index("run-0000000002.plan.w01") <= RUN_SHARE + 1
    assert [message async for message in bus.unsettled(task_subject("worker", task_class="low"))] == []
