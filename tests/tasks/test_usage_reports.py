"""What a task uses is told while it is being done, stored, and told to the end however the task ends."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.contracts import TaskContract, TaskResult, UsageReport
from gatewright.contracts.vocabulary import Budget, Document
from gatewright.errors import DeniedError, UnavailableError
from gatewright.tasks.protocol import cancel_notice
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.kinds_of_work import make_short_contract
from tests.tasks.role_at_work import Handler, RoleAtWork, Work, make_result
from tests.waiting import PATIENCE


@pytest.fixture
def role() -> RoleAtWork:
    return RoleAtWork()


def spending(*amounts: int, pause: float = 0.05, then: BaseException | None = None, forever: bool = False) -> Work:
    async def work(task: TaskContract, context: TaskContext) -> Document:
        for amount in amounts:
            context.spend(tokens=amount)
            await asyncio.sleep(pause)
        if forever:
            await asyncio.sleep(60)
        if then is not None:
            raise then
        return make_result(task, usage=context.meter.usage)

    return work


async def told(role: RoleAtWork) -> list[int]:
    return [document.usage.tokens for document in await role.results() if isinstance(document, UsageReport)]


async def interrupted(role: RoleAtWork) -> list[UsageReport]:
    """The accounts of deliveries that ended without an answer."""
    reports = [document for document in await role.results() if isinstance(document, UsageReport)]
    return [report for report in reports if report.interrupted is not None]


async def answered(role: RoleAtWork) -> list[Document]:
    async with asyncio.timeout(PATIENCE):
        while not (found := [each for each in await role.results() if not isinstance(each, UsageReport)]):
            await role.server.wait(0.01)
    return found


async def test_every_step_is_reported_before_the_answer(role: RoleAtWork) -> None:
    async with role.working(Handler(spending(10, 20, 5))):
        await role.give(make_contract(budget=Budget(tokens=100)))
        (result,) = await answered(role)
    assert await told(role) == [10, 30, 35]
    assert isinstance(result, TaskResult)
    assert result.usage is not None
    assert result.usage.tokens == 35


async def test_less_than_a_step_is_reported_by_the_answer_alone(role: RoleAtWork) -> None:
    async with role.working(Handler(spending(1, 1, 1))):
        await role.give(make_contract(budget=Budget(tokens=1000)))
        await answered(role)
    assert await told(role) == []


async def test_a_task_without_a_budget_reports_nothing_meanwhile(role: RoleAtWork) -> None:
    async with role.working(Handler(spending(1000, 1000))):
        await role.give(make_contract(budget=Budget(wall_sec=60)))
        await answered(role)
    assert await told(role) == []


@pytest.mark.parametrize("error", [DeniedError("no"), UnavailableError("later")])
async def test_a_task_that_fails_has_used_what_it_has_used(role: RoleAtWork, error: BaseException) -> None:
    async with role.working(Handler(spending(3, then=error))):
        await role.give(make_contract(budget=Budget(tokens=1000)))
        async with asyncio.timeout(PATIENCE):
            while not await told(role):
                await role.server.wait(0.01)
    assert (await told(role))[0] == 3


async def test_a_cancelled_task_has_too(role: RoleAtWork) -> None:
    handler = Handler(spending(3, forever=True))
    async with role.working(handler):
        await role.give(make_contract(budget=Budget(tokens=1000)))
        await handler.started.wait()
        await role.bus.broadcast(CANCEL_SUBJECT, cancel_notice(make_contract().log_refs.run_id))
        await role.queue_empties()
    assert await told(role) == [3]


async def test_deliveries_of_a_task_are_distinguished(role: RoleAtWork) -> None:
    async with role.working(Handler(spending(10, then=UnavailableError("later")))):
        await role.give(make_contract(budget=Budget(tokens=100)))
        async with asyncio.timeout(PATIENCE):
            while len(accounts := await interrupted(role)) < 2:
                await role.server.wait(0.01)
    assert [report.usage.delivery.partition(".")[2] for report in accounts[:2]] == ["1", "2"]


def leaving(*parts: tuple[str, bytes]) -> Work:
    """Ask a model without an end; what is left behind when the work is interrupted."""

    async def work(_task: TaskContract, context: TaskContext) -> Document:
        context.spend(iterations=1)
        try:
            await asyncio.Event().wait()
        finally:
            await context.leave(parts)
        raise AssertionError

    return work


async def test_the_first_turn_is_reported_also_without_a_budget(role: RoleAtWork) -> None:
    async with role.working(Handler(leaving())):
        await role.give(make_contract())
        async with asyncio.timeout(PATIENCE):
            while not await told(role):
                await role.server.wait(0.01)
    assert (await role.results())[0].usage.iterations == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("why", ["cancelled", "timed_out", "released"])
async def test_work_that_is_interrupted_names_what_it_leaves(role: RoleAtWork, why: str) -> None:
    handler = Handler(leaving(("model_calls", b"one call\n"), ("empty", b"")))
    seconds = 1 if why == "timed_out" else 60
    async with role.working(handler):
        await role.give(make_short_contract(seconds))
        await handler.started.wait()
        if why == "cancelled":
            await role.bus.broadcast(CANCEL_SUBJECT, cancel_notice(make_contract().log_refs.run_id))
        if why != "released":
            async with asyncio.timeout(PATIENCE):
                while not await interrupted(role):
                    await role.server.wait(0.01)
    account = (await interrupted(role))[0]
    assert account.interrupted is not None
    assert account.interrupted.why == why
    (left,) = account.interrupted.artifacts
    assert (left.name, await role.bus.get_artifact(left.uri)) == ("model_calls", b"one call\n")
