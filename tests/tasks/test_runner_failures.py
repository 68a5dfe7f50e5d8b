"""What the runner does when things go wrong: failures, time that is up, aborted runs, leaving, a bus that goes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.contracts import TaskContract, TaskResult
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, DeniedError, GatewrightError, SandboxError
from gatewright.tasks.protocol import cancel_notice
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.kinds_of_work import BrokenBus, make_short_contract, raising, sleeping
from tests.tasks.role_at_work import ACK_WAIT, QUICK, Handler, RoleAtWork, do_nothing, make_result

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RUN = "run-0123456789"


# --- trying again


async def test_unavailable_thing_is_tried_again_until_it_is_there(role: RoleAtWork) -> None:
    handler = Handler(raising(SandboxError("no bubblewrap")))
    async with role.working(handler):
        await role.give(make_contract())
        assert isinstance(await role.result(), TaskResult)
    assert [attempts for _, attempts in handler.seen] == [1, 2]
    assert role.tasks("retried") == 1
    assert role.metrics.registry.get_sample_value("gatewright_redeliveries_total", {"role": "worker"}) == 1


async def test_unavailable_thing_that_stays_away_ends_the_task_with_the_cause() -> None:
    role = RoleAtWork(max_deliver=3)
    handler = Handler(raising(*[SandboxError("no bubblewrap")] * 9))
    async with role.working(handler):
        await role.give(make_contract())
        error = await role.error()
        await role.queue_empties()
    assert (error.code, error.message) == ("sandbox_unavailable", "no bubblewrap (given up after 2 attempts)")
    assert len(handler.seen) == 2
    assert len(await role.dead()) == 1


async def test_unexpected_error_ends_the_runner_and_another_one_does_the_task(role: RoleAtWork) -> None:
    await role.give(make_contract())
    with pytest.raises(GatewrightError, match="the role failed with ZeroDivisionError"):
        await role.runner(Handler(raising(ZeroDivisionError("boom")))).run(asyncio.Event())
    assert b"Traceback" in role.log.getvalue()
    assert role.tasks("crashed") == 1
    async with role.working(Handler()):
        assert isinstance(await role.result(), TaskResult)


async def test_handler_that_cancels_itself_is_a_crash_not_a_success(role: RoleAtWork) -> None:
    await role.give(make_contract())
    with pytest.raises(GatewrightError, match="CancelledError"):
        await role.runner(Handler(raising(asyncio.CancelledError()))).run(asyncio.Event())
    assert not await role.results()


async def test_task_that_crashes_every_process_is_refused_in_the_end() -> None:
    role = RoleAtWork(max_deliver=4)
    await role.give(make_contract())
    crashes = 0
    for _ in range(2):
        with pytest.raises(GatewrightError):
            await role.runner(Handler(raising(ZeroDivisionError()))).run(asyncio.Event())
        crashes += 1
    async with role.working(Handler(raising(ZeroDivisionError()))):
        error = await role.error()
        await role.queue_empties()
    assert (error.code, crashes) == ("internal_error", 2)
    assert len(await role.dead()) == 1


async def test_task_that_kills_its_process_unseen_is_refused_without_being_touched_again() -> None:
    role = RoleAtWork(max_deliver=3)
    await role.give(make_contract())
    subscription = await role.bus.consume(role.consumer)
    for _ in range(2):
        assert await subscription.next(5) is not None  # taken by a process that is then killed
    handler = Handler()
    async with role.working(handler):
        error = await role.error()
        await role.queue_empties()
    assert (error.code, error.message) == ("attempts_exhausted", "no answer after 2 attempts")
    assert not handler.seen
    assert role.tasks("exhausted") == 1


async def test_crash_over_one_task_gives_the_other_one_back_at_once(role: RoleAtWork) -> None:
    async def work(task: TaskContract, _context: TaskContext) -> Document:
        if task.log_refs.run_id == "run-that-crashes":
            await asyncio.sleep(0.05)
            raise ZeroDivisionError
        await asyncio.sleep(60)
        return make_result(task)

    await role.give(make_contract())
    await role.give(make_contract("run-that-crashes"))
    with pytest.raises(GatewrightError):
        await role.runner(Handler(work), replace(QUICK, concurrency=2)).run(asyncio.Event())
    returned = await (await role.bus.consume(role.consumer)).next(0)
    assert returned is not None
    assert b"run-0123456789" in returned.message.data


# --- long work


async def test_long_task_stays_ours_while_it_is_at_work(role: RoleAtWork) -> None:
    first, second = Handler(sleeping(ACK_WAIT * 4)), Handler()
    async with role.working(first), role.working(second):
        await role.give(make_contract())
        await role.result()
        await role.queue_empties()
    assert len(first.seen) + len(second.seen) == 1


async def test_task_beyond_its_time_is_ended_and_refused(role: RoleAtWork) -> None:
    ended = asyncio.Event()

    async def work(task: TaskContract, _context: TaskContext) -> Document:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return make_result(task)

    async with role.working(Handler(work)):
        await role.give(make_short_contract(1))
        error = await role.error()
        await role.queue_empties()
    assert (error.code, error.message) == ("task_timeout", "no progress for 1 seconds")
    assert ended.is_set()
    assert role.tasks("timed_out") == 1


async def test_progress_starts_the_time_limit_anew(role: RoleAtWork) -> None:
    async def work(task: TaskContract, context: TaskContext) -> Document:
        for _ in range(3):
            await asyncio.sleep(0.5)
            context.progress()
        return make_result(task)

    async with role.working(Handler(work)):
        await role.give(make_short_contract(1))
        assert isinstance(await role.result(), TaskResult)


async def test_report_that_a_handler_makes_of_its_time_out_counts(role: RoleAtWork) -> None:
    async def work(task: TaskContract, _context: TaskContext) -> Document:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return make_result(task, status="FAILED", failure="timed out: it took too long")

    async with role.working(Handler(work)):
        await role.give(make_short_contract(1))
        result = await role.result()
    assert isinstance(result, TaskResult)
    assert result.status == "FAILED"


async def test_handler_that_cannot_be_ended_ends_the_process(role: RoleAtWork) -> None:
    release = asyncio.Event()

    async def work(task: TaskContract, _context: TaskContext) -> Document:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return make_result(task)

    await role.give(make_short_contract(1))
    with pytest.raises(GatewrightError) as failed:
        await role.runner(Handler(work), replace(QUICK, patience=0.1)).run(asyncio.Event())
    assert failed.value.reason == "handler_stuck"
    assert not await role.results()
    release.set()


# --- cancelling


async def test_aborted_run_ends_its_task_and_nothing_is_published(role: RoleAtWork) -> None:
    ended = asyncio.Event()

    async def work(task: TaskContract, _context: TaskContext) -> Document:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
        return make_result(task, status="FAILED", failure="aborted: cancelled")

    handler = Handler(work)
    async with role.working(handler):
        await role.give(make_contract())
        await handler.started.wait()
        await role.bus.broadcast(CANCEL_SUBJECT, cancel_notice(RUN))
        await role.queue_empties()
    assert ended.is_set()
    assert not await role.results()
    assert not await role.dead()
    assert role.tasks("cancelled") == 1


async def test_task_of_an_aborted_run_that_is_still_queued_is_not_begun(role: RoleAtWork) -> None:
    handler = Handler(sleeping(0.1))
    async with role.working(handler):
        await role.give(make_contract("run-that-goes-on"))
        await role.give(make_contract())
        await handler.started.wait()
        await role.bus.broadcast(CANCEL_SUBJECT, cancel_notice(RUN))
        await role.queue_empties()
    assert [task_id for task_id, _ in handler.seen] == ["run-that-goes-on.contract"]
    assert len(await role.results()) == 1


async def test_broadcast_that_is_no_cancellation_changes_nothing(role: RoleAtWork) -> None:
    handler = Handler(sleeping(0.1))
    async with role.working(handler):
        await role.give(make_contract())
        await handler.started.wait()
        for data in (b"", b"{}", b"\xff", b'"run-of-another"', RUN.encode()):
            await role.bus.broadcast(CANCEL_SUBJECT, data)
        assert isinstance(await role.result(), TaskResult)
    assert "cancellation_malformed" in role.events()


# --- leaving


async def test_idle_runner_leaves_at_once(role: RoleAtWork) -> None:
    """It does not wait for as long as a task in hand may take to its end."""
    handler = Handler()
    async with role.working(handler, replace(QUICK, drain=600.0)):
        await asyncio.sleep(0.05)
    assert handler.seen == []


async def test_task_that_arrives_while_leaving_is_left_to_others(role: RoleAtWork) -> None:
    handler = Handler()
    async with role.working(handler):
        await asyncio.sleep(0.05)
        await role.give(make_contract())
    assert not handler.seen
    assert await (await role.bus.consume(role.consumer)).next(0) is not None


async def test_runner_that_has_left_takes_nothing_any_more(role: RoleAtWork) -> None:
    async with role.working(Handler()):
        await asyncio.sleep(0.05)
    await role.give(make_contract())
    await asyncio.sleep(0.01)
    assert await (await role.bus.consume(role.consumer)).next(0) is not None


async def test_task_in_hand_is_finished_before_leaving_and_no_other_is_begun(role: RoleAtWork) -> None:
    handler = Handler(sleeping(0.1))
    async with role.working(handler):
        await role.give(make_contract())
        await role.give(make_contract("run-9876543210"))
        await handler.started.wait()
    assert [type(result) for result in await role.results()] == [TaskResult]
    assert len(handler.seen) == 1
    async with role.working(Handler()):
        await role.queue_empties()


async def test_task_that_takes_longer_than_the_drain_is_given_back_at_once(role: RoleAtWork) -> None:
    handler = Handler(sleeping(60))
    async with role.working(handler):
        await role.give(make_contract())
        await handler.started.wait()
    assert not await role.results()
    assert role.tasks("released") == 1
    returned = await (await role.bus.consume(role.consumer)).next(0)
    assert returned is not None
    assert returned.attempts == 2


# --- a bus that fails


async def test_answer_is_published_once_the_bus_is_back(role: RoleAtWork) -> None:
    bus = BrokenBus(role.server)
    handler = Handler()
    async with role.working(handler, replace(QUICK, patience=5), bus):
        bus.faults = 1
        await role.give(make_contract())
        assert isinstance(await role.result(), TaskResult)
        await role.queue_empties()
    assert len(handler.seen) == 1


async def test_an_unanswered_bus_ends_the_process_and_returns_the_task(role: RoleAtWork) -> None:
    bus = BrokenBus(role.server)
    bus.faults = 100
    await role.give(make_contract())
    with pytest.raises(BusError):
        await role.runner(Handler(), QUICK, bus).run(asyncio.Event())
    async with role.working(Handler()):
        assert isinstance(await role.result(), TaskResult)


async def test_refusal_is_sent_before_the_task_leaves_the_queue(role: RoleAtWork) -> None:
    """A process that dies between the two leaves the task in the queue, never a run without an answer."""
    bus = BrokenBus(role.server)
    bus.faults = 100
    await role.give(make_contract())
    with pytest.raises(BusError):
        await role.runner(Handler(raising(DeniedError("no"))), QUICK, bus).run(asyncio.Event())
    assert len(await role.stored("gw.task.worker.default.normal")) == 1
    async with role.working(Handler(raising(DeniedError("no")))):
        assert (await role.error()).code == "denied"


async def test_bus_that_is_closed_ends_the_runner(role: RoleAtWork) -> None:
    bus = MemoryBus(role.server)
    running = asyncio.create_task(role.runner(Handler(do_nothing), QUICK, bus).run(asyncio.Event()))
    await asyncio.sleep(0.05)
    await bus.close()
    with pytest.raises(BusError):
        await asyncio.wait_for(running, 5)
