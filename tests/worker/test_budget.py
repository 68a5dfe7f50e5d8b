"""A worker stops its executor at once when the task has used more than it was given, and says what was used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from gatewright.contracts import WorkReport, codec
from gatewright.contracts.vocabulary import Budget, Executor
from gatewright.errors import BudgetError
from gatewright.git.mirror import Mirrors
from gatewright.sandbox import make_sandbox
from gatewright.services.worker.executors.port import ExecutionResult, Job
from gatewright.services.worker.handler import WorkerHandler, make_handler
from gatewright.services.worker.settings import Settings
from gatewright.tasks.budget_meter import BudgetMeter
from gatewright.workspace import Workspaces
from tests.handler_fixture import HandlerFixture
from tests.waiting import PATIENCE

COMMAND = Executor(kind="command", commands=("python3 tools/wait.py",))


class Spender:
    """Spends ten tokens at a time, for ever; ``deaf``: whatever it is told."""

    def __init__(self, *, deaf: bool = False) -> None:
        self._deaf = deaf
        self.spent = 0
        self.ended = False

    async def execute(self, job: Job) -> ExecutionResult:
        try:
            while True:
                self.spent += 10
                try:
                    job.spend(tokens=10, cost_usd=0.001, iterations=1)
                except BudgetError:
                    if not self._deaf:
                        raise
                await asyncio.sleep(0)
        finally:
            self.ended = True


@pytest.fixture
def worker_with(fixture: HandlerFixture) -> Callable[[Spender], WorkerHandler]:
    def make(spender: Spender) -> WorkerHandler:
        sandbox = make_sandbox("none")
        workspaces = Workspaces.for_sandbox(fixture.state / "workspaces", sandbox)
        return WorkerHandler("worker-7", Mirrors(fixture.state / "mirrors"), {"command": spender}, sandbox, workspaces)

    return make


@pytest.mark.parametrize("deaf", [False, True])
async def test_an_executor_is_stopped_at_the_call_that_goes_too_far(
    fixture: HandlerFixture, worker_with: Callable[[Spender], WorkerHandler], *, deaf: bool
) -> None:
    spender, budget = Spender(deaf=deaf), Budget(tokens=100)
    context = replace(fixture.context(), meter=BudgetMeter(budget, delivery="3.1"))
    result = await asyncio.wait_for(
        worker_with(spender).handle(fixture.contract(executor=COMMAND, budget=budget), context), PATIENCE
    )
    assert (result.status, result.failure) == ("FAILED", "budget_exceeded: 110 of 100 tokens used")
    assert result.usage is not None
    # Who is told and goes on is cancelled at the next call, and what that call said counts.
    spent = 120 if deaf else 110
    assert (result.usage.tokens, result.usage.iterations, result.usage.delivery) == (spent, spent // 10, "3.1")
    assert spender.ended
    assert spender.spent == spent
    report = next(artifact for artifact in result.artifacts if artifact.name == "work_report")
    assert codec.decode(fixture.artifacts.stored[report.uri], WorkReport).usage == result.usage
    assert result.git.patch == ""


async def test_a_real_command_is_killed_when_the_task_s_time_is_up(fixture: HandlerFixture) -> None:
    """The gatekeeper would have ended it; a worker that cannot hear it ends it all the same."""
    fixture.baseline = fixture.repository.commit({"tools/wait.py": b"import time\ntime.sleep(60)\n"})
    budget = Budget(wall_sec=1.0)
    context = replace(fixture.context(), meter=BudgetMeter(budget))
    worker = make_handler(Settings(home=fixture.state))
    result = await asyncio.wait_for(worker.handle(fixture.contract(executor=COMMAND, budget=budget), context), PATIENCE)
    assert result.status == "FAILED"
    assert (result.failure or "").startswith("budget_exceeded: 3 of 1 wall_sec used")
    assert result.usage is None


async def test_a_worker_without_usage_reports_none(fixture: HandlerFixture, worker: WorkerHandler) -> None:
    fix = Executor(kind="command", commands=("python3 tools/fix.py src/a.py",))
    result = await worker.handle(fixture.contract(executor=fix), fixture.context())
    assert result.status == "SUCCESS"
    assert b'"usage"' not in codec.encode(result)
