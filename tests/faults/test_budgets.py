"""Budgets stop work in flight: real gatekeepers, real workers, processes that are killed, stopped and told nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as msgspec_replace

from gatewright.app.stack.launch import ProcessPlan, execute
from gatewright.app.stack.supervised_process import SupervisedProcess
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.bus.topology import REQUEST_SUBJECT
from gatewright.clock import SystemClock, new_id
from gatewright.contracts import BudgetState, RunRequest, codec
from gatewright.contracts.vocabulary import AcceptanceTest, Budget, Environment, Executor, Repository, Sharding, TimeoutRetry
from gatewright.evidence.verification.verify import verify
from gatewright.run.state import Run, run_id_of
from tests.ecosystems.environments import plain_environment
from tests.faults.crash_points import fired
from tests.faults.fault_stack import ROOT, STUBBORN, House, open_house
from tests.faults.spending_worker import USED
from tests.git.repositories import MakeRepository
from tests.git.repositories import Repository as GitRepository
from tests.waiting import PATIENCE, in_state, until

EDIT = b"""import pathlib, sys, time
time.sleep(float(sys.argv[1]))
for top in map(pathlib.Path, sys.argv[2:]):
    (top / "new.py").write_text("edited = True\\n")
"""
FILES = {
    "src/a/x.py": b"x = 1\n",
    "src/b/y.py": b"y = 1\n",
    "tools/edit.py": EDIT,
    "tools/good.py": b"",
    "tools/bad.py": b"1/0\n",
}


@pytest.fixture
def project(make_repository: MakeRepository) -> GitRepository:
    return make_repository("project", files=FILES)


def order(project: GitRepository, budget: Budget, *commands: str, words: str = "a change", **more: Any) -> RunRequest:
    return RunRequest(
        request=words,
        repository=Repository(url=project.url),
        requested_by="tests",
        allowed_paths=("src/a", "src/b"),
        acceptance_tests=(AcceptanceTest(name="good", cmd="python tools/good.py", must_pass=True),),
        executor=Executor(kind="command", commands=commands or ("python tools/edit.py 60 {paths}",)),
        environment=Environment(prefix=str(plain_environment())),
        budget=budget,
        **more,
    )


async def events_of(house: House, run_id: str, kind: str) -> list[dict[str, Any]]:
    return [event.payload for event in await house.client.events(run_id) if event.event_type == kind]


def at_work(marker: str) -> list[int]:
    """The processes that have ``marker`` in their command line, in whatever sandbox."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "cmdline").read_bytes().replace(b"\0", b" "):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


async def assert_ended_by(house: House, run: Run, project: GitRepository, budget: str) -> dict[str, Any]:
    """It failed for that budget, once, nothing landed, and the bundle proves it; the event that tells."""
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "budget_exceeded"), run.failure
    assert budget in run.failure.message
    (told,) = await events_of(house, run.run_id, "budget_exceeded")
    assert told["budget"] == budget
    assert run.landed is None
    assert project.git("for-each-ref", "refs/heads/gatewright").strip() == b""
    assert run.sealed is not None
    bundle = Path(run.sealed.location)
    assert verify(bundle, [house.public_key]).ok
    assert b'"budget_exceeded"' in (bundle / "events.jsonl").read_bytes()
    assert f"budget_exceeded: {run.failure.message}" == json.loads((bundle / "manifest.json").read_bytes())["failure_reason"]
    return told


@pytest.mark.long
async def test_a_command_that_sleeps_is_ended_when_the_time_is_up(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, workers=1) as house:
        run_id = await house.client.submit_request(order(project, Budget(wall_sec=2), "python tools/edit.py 61 {paths}"))
        await until(lambda: bool(at_work("tools/edit.py 61")))
        run = await house.client.wait(run_id, timeout=PATIENCE)
        told = await assert_ended_by(house, run, project, "wall_sec")
        assert told["used"] >= 2
        assert "waiting for the worker" in told["waiting"]
        await until(lambda: not at_work("tools/edit.py 61"))
        # The worker is free for the next run.
        again = await house.client.submit_request(order(project, Budget(wall_sec=60), "python tools/edit.py 0 {paths}"))
        assert (await house.client.wait(again, timeout=PATIENCE)).status == "SUCCESS"


@pytest.mark.long
async def test_a_run_that_no_worker_takes_ends_in_time(tmp_path: Path, project: GitRepository) -> None:
    """Its task lies in a queue that nobody serves: that time counts."""
    async with open_house(tmp_path, workers=0) as house:
        run_id = await house.client.submit_request(order(project, Budget(wall_sec=2)))
        run = await house.client.wait(run_id, timeout=PATIENCE)
        await assert_ended_by(house, run, project, "wall_sec")


@pytest.mark.long
async def test_the_time_runs_on_while_the_gatekeeper_is_away(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, workers=1) as house:
        run_id = await house.client.submit_request(order(project, Budget(wall_sec=3), "python tools/edit.py 62 {paths}"))
        await in_state(house.client, run_id, "S2")
        gone = house.kill("gatekeeper")
        await house.back("gatekeeper", gone)
        run = await house.client.wait(run_id, timeout=PATIENCE)
        await assert_ended_by(house, run, project, "wall_sec")
        await until(lambda: not at_work("tools/edit.py 62"))


@pytest.mark.long
@pytest.mark.parametrize("hanging", ["gatekeeper-1", "gatekeeper-2"])
async def test_another_gatekeeper_ends_the_run_of_one_that_hangs(tmp_path: Path, project: GitRepository, hanging: str) -> None:
    """Each on a disk of its own: whichever of them has moved the run so far, the one that is left ends it in time."""
    async with open_house(tmp_path, gatekeepers=2, own_homes=True, workers=1) as house:
        run_id = await house.client.submit_request(order(project, Budget(wall_sec=3), "python tools/edit.py 63 {paths}"))
        await until(lambda: bool(at_work("tools/edit.py 63")))
        (pid,) = house.pids(hanging)
        os.kill(pid, signal.SIGSTOP)
        try:
            run = await house.client.wait(run_id, timeout=PATIENCE)
            await assert_ended_by(house, run, project, "wall_sec")
            await until(lambda: not at_work("tools/edit.py 63"))
        finally:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.long
async def test_two_gatekeepers_decide_once(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, gatekeepers=2, workers=1) as house:
        orders = [order(project, Budget(wall_sec=2), words=f"change {number}") for number in range(8)]
        run_ids = [await house.client.submit_request(each) for each in orders]
        for run_id in run_ids:
            run = await house.client.wait(run_id, timeout=PATIENCE)
            await assert_ended_by(house, run, project, "wall_sec")


@pytest.mark.long
async def test_the_fix_loop_waits_for_its_back_off(tmp_path: Path, project: GitRepository) -> None:
    retry = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=1.5)
    commands = ("python tools/edit.py 0 src/a", "python tools/edit.py 0 src/a src/b")
    request = order(project, Budget(wall_sec=60, iterations=2), *commands, timeout_retry=retry)
    needs_both = b"import pathlib\npathlib.Path('src/b/new.py').read_text()\n"
    project.commit({"tools/good.py": needs_both}, "the first answer will not do")
    async with open_house(tmp_path, workers=1) as house:
        run_id = await house.client.submit_request(request)
        run = await house.client.wait(run_id, timeout=PATIENCE)
        assert (run.status, run.attempt) == ("SUCCESS", 2)
        events = await house.client.events(run_id)
        ordered = next(event for event in events if event.event_type == "fix_ordered")
        given = next(event for event in events if event.event_type == "task_dispatched" and event.seq > ordered.seq)
        waited = (datetime.fromisoformat(given.ts) - datetime.fromisoformat(ordered.ts)).total_seconds()
        assert waited >= 1.5


@asynccontextmanager
async def spending_workers(house: House, count: int) -> AsyncIterator[list[SupervisedProcess]]:
    """Real worker processes whose executor is the double."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(house.root),
        "GATEWRIGHT_METRICS_PORT": "-1",
        "GATEWRIGHT_NATS_URL": house.supervisor.address.url,
        "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(house.homes[0]), "worker")),
        "GATEWRIGHT_HOME": str(house.homes[0]),
        "PYTHONPATH": str(ROOT),
    }
    kept = []
    for number in range(count):
        log = house.root / "logs" / f"spending-{number}.log"
        plan = ProcessPlan(f"spending-{number}", "tests.faults.spending_worker", environment, house.homes[0], log)
        kept.append(SupervisedProcess(plan, launch=execute, policy=STUBBORN, clock=SystemClock(), on_change=lambda: None))
    await asyncio.gather(*(process.start() for process in kept))
    try:
        yield kept
    finally:
        await asyncio.gather(*(process.stop(10.0) for process in kept))


def used(house: House) -> tuple[int, float]:
    """Tokens and dollars that the executors used, by their own book."""
    book = house.homes[0] / USED
    lines = [line.split() for line in book.read_text().splitlines()] if book.exists() else []
    return sum(int(line[1]) for line in lines), sum(float(line[2]) for line in lines)


async def assert_nothing_is_used_any_more(house: House, project: GitRepository, *, workers: int = 1) -> None:
    """The workers take the tasks of another run, and while they do them nothing but that run is paid for."""
    before, tokens, times = used(house), 1, 40
    words = f"spend {tokens} tokens 0.0 USD every 0.02 s, {times} times"
    request = order(project, Budget(wall_sec=60), "python x.py {paths}", words=words, sharding=Sharding(count=workers))
    run = await house.client.wait(await house.client.submit_request(request, patience=PATIENCE), timeout=PATIENCE)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert used(house) == (before[0] + workers * times * tokens, before[1])


@pytest.mark.long
async def test_a_task_is_stopped_at_its_last_token(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, workers=0) as house, spending_workers(house, 1):
        words = "spend 10 tokens 0.0 USD every 0.01 s, 100000 times"
        run_id = await house.client.submit_request(
            order(project, Budget(tokens=500), "python x.py", words=words), patience=PATIENCE
        )
        run = await house.client.wait(run_id, timeout=PATIENCE)
        told = await assert_ended_by(house, run, project, "tokens")
        assert (told["limit"], told["used"], used(house)[0]) == (500, 510, 510)
        result = run.tasks[f"{run_id}.plan.w01"].result
        # By what the worker has reported of its use the run may be over before its answer comes.
        assert result is None or result.failure == "budget_exceeded: 510 of 500 tokens used"
        await assert_nothing_is_used_any_more(house, project)


@pytest.mark.long
async def test_one_task_that_spends_too_much_stops_the_others_in_flight(tmp_path: Path, project: GitRepository) -> None:
    """Each of two has half. The one that overdraws ends the run, and the other, which would go on for minutes, is stopped."""
    async with open_house(tmp_path, workers=0) as house, spending_workers(house, 2):
        words = "spend 10 tokens 0.01 USD every 0.02 s, 100000 times"
        request = order(project, Budget(cost_usd=2.0), "python x.py {paths}", words=words, sharding=Sharding(count=2))
        run_id = await house.client.submit_request(request, patience=PATIENCE)
        run = await house.client.wait(run_id, timeout=PATIENCE)
        told = await assert_ended_by(house, run, project, "cost_usd")
        assert told["limit"] in (1.0, 2.0)
        shards = [task for task in run.tasks.values() if task.role == "worker"]
        assert len(shards) == 2
        assert [task.contract.budget.cost_usd for task in shards if task.contract and task.contract.budget] == [1.0, 1.0]
        await assert_nothing_is_used_any_more(house, project, workers=2)
        assert round(used(house)[1], 6) <= 2.0 + 2 * 0.01


@pytest.mark.long
async def test_what_a_killed_worker_has_used_is_not_forgotten(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, workers=0) as house, spending_workers(house, 1) as workers:
        words = "spend 10 tokens 0.0 USD every 0.05 s, 100000 times"
        run_id = await house.client.submit_request(
            order(project, Budget(tokens=1000), "python x.py", words=words), patience=PATIENCE
        )
        await until(lambda: used(house)[0] >= 600)
        os.kill(workers[0].member.pid, signal.SIGKILL)
        run = await house.client.wait(run_id, timeout=PATIENCE)
        told = await assert_ended_by(house, run, project, "tokens")
        # A twentieth is a report step; and what was used until the word of the end reached the worker.
        step, last = 50, 100
        assert told["used"] > told["limit"] == 1000
        in_all = used(house)[0]
        await assert_nothing_is_used_any_more(house, project)
        assert in_all <= 1000 + step + last


@pytest.mark.long
async def test_usage_within_the_budget_is_reported_and_the_run_succeeds(tmp_path: Path, project: GitRepository) -> None:
    async with open_house(tmp_path, workers=0) as house, spending_workers(house, 1):
        words = "spend 10 tokens 0.01 USD every 0.01 s, 10 times"
        budget = Budget(tokens=100, cost_usd=0.1, wall_sec=60)
        run_id = await house.client.submit_request(order(project, budget, "python x.py", words=words), patience=PATIENCE)
        run = await house.client.wait(run_id, timeout=PATIENCE)
        assert (run.status, run.failure) == ("SUCCESS", None)
        (task,) = [task for task in run.tasks.values() if task.role == "worker"]
        assert task.result is not None
        assert task.result.usage is not None
        assert (task.result.usage.tokens, task.result.usage.cost_usd) == (100, 0.1)
        assert len(await events_of(house, run_id, "usage_reported")) >= 5
        assert run.sealed is not None
        assert verify(Path(run.sealed.location), [house.public_key]).ok


#: Between reservation and acceptance, acceptance and use, end and seal, seal and settlement.
KILLED = ("reserved", "after_append.1", "before_seal", "after_seal")


@pytest.mark.long
async def test_a_gatekeeper_killed_around_a_reservation_keeps_the_budget(tmp_path: Path, project: GitRepository) -> None:
    """The last run fits only if no earlier one left a reservation, and only its real usage."""
    limit = {
        "name": "team",
        "publishers": ["*"],
        "repositories": ["*"],
        "period": "month",
        "tokens": 30 + 10 * (len(KILLED) - 1),
    }
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "budgets.json").write_text(json.dumps({"version": "1", "budgets": [limit]}))
    async with open_house(tmp_path, workers=0, points=True, policies=policies) as house, spending_workers(house, 1):
        for number, point in enumerate(KILLED, 1):
            (house.points / point).touch()
            request = order(project, Budget(tokens=30), words=f"spend 10 tokens 0.0 USD every 0.01 s, 1 times; {number}")
            key = new_id()
            data = codec.encode(msgspec_replace(request, idempotency_key=key))
            await house.bus.publish(REQUEST_SUBJECT, data, schema="run_request.v1", message_id=key)
            run = await house.client.wait(run_id_of(key), timeout=PATIENCE)
            assert (run.status, len(fired(house.points))) == ("SUCCESS", number), run.failure
            async with asyncio.timeout(PATIENCE):
                while (state := await team_budget(house)).spent_tokens < 10 * number:  # noqa: ASYNC110 - it is another process
                    await asyncio.sleep(0.05)
            assert (state.spent_tokens, state.reserved_tokens) == (10 * number, 0), point


async def team_budget(house: House) -> BudgetState:
    (state,) = (await house.client.budgets()).budgets
    return state
