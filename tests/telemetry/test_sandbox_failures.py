"""A sandbox that fails is counted where it failed, however the role speaks of it."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.vocabulary import Agent, Document
from gatewright.errors import SandboxError
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.role_at_work import Handler, RoleAtWork, Work, make_result
from tests.waiting import PATIENCE


def failures(role: RoleAtWork) -> float | None:
    labels = {"role": "worker", "during": "task"}
    return role.metrics.registry.get_sample_value("gatewright_sandbox_failures_total", labels)


async def blocked(task: TaskContract, _context: TaskContext) -> Document:
    return make_result(task, status="BLOCKED", failure="sandbox_unavailable: no user namespaces here")


async def failed(task: TaskContract, _context: TaskContext) -> Document:
    return make_result(task, status="FAILED", failure="executor_failed: sandbox_unavailable: it says so itself")


async def raised_once(task: TaskContract, context: TaskContext) -> Document:
    if context.attempts == 1:
        raise SandboxError("no user namespaces here")
    return make_result(task)


@pytest.mark.parametrize(("work", "count"), [(blocked, 1), (failed, 0), (raised_once, 1)])
async def test_only_what_the_sandbox_itself_could_not_do_is_its_failure(work: Work, count: int) -> None:
    role = RoleAtWork()
    await role.give(make_contract("run-0123456789"))
    async with role.working(Handler(work)):
        await role.result()
        async with asyncio.timeout(PATIENCE):
            while failures(role) != count:  # noqa: ASYNC110 - a counter tells nobody
                await asyncio.sleep(0.01)
    assert failures(role) == count


async def test_a_test_report_that_blames_the_sandbox_is_counted_too() -> None:
    async def report(task: TaskContract, _context: TaskContext) -> Document:
        return TestReport(
            run_id=task.log_refs.run_id,
            task_id=task.task_id,
            runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
            started_at="2026-01-02T00:00:00.000Z",
            finished_at="2026-01-02T00:00:00.000Z",
            status="ERROR",
            commands=(),
            artifacts=(),
            failure="sandbox_unavailable: no user namespaces here",
        )

    role = RoleAtWork(role="testrunner")
    await role.give(make_contract("run-0123456789"))
    async with role.working(Handler(report)):
        await role.result()
    assert failures(role) == 1
