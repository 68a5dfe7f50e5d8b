"""The runner's promises: every task is answered once or refused with a reason, whatever happens to handler, process or bus."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message, PublishAck
from gatewright.bus.subjects import MAX_MESSAGE_BYTES
from gatewright.bus.topology import CANCEL_SUBJECT, result_subject
from gatewright.contracts import Error, TaskContract, TaskResult, codec
from gatewright.contracts.vocabulary import Document, TimeoutRetry
from gatewright.errors import BusError, DeniedError, GatewrightError, SandboxError
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.protocol import cancel_notice
from gatewright.tasks.runner import TaskContext
from tests.bus.role_at_work import ACK_WAIT, QUICK, Handler, RoleAtWork, Work, do_nothing, make_result
from tests.factories import make_contract

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RUN = "run-0123456789"


@pytest.fixture
def role() -> RoleAtWork:
    return RoleAtWork()


def sleeping(seconds: float) -> Work:
    async def work(task: TaskContract, _context: TaskContext) -> Document:
        await asyncio.sleep(seconds)
        return make_result(task)

    return work


def raising(*errors: BaseException) -> Work:
    """Raises these one after the other, then does its work."""
    left = list(errors)

    async def work(task: TaskContract, _context: TaskContext) -> Document:
        if left:
            raise left.pop(0)
        return make_result(task)

    return work


def make_short_contract(seconds: float) -> TaskContract:
    limit = TimeoutRetry(timeout_sec=seconds, max_retries=0, retry_backoff_sec=0)
    return make_contract(timeout_retry=limit)


class BrokenBus(MemoryBus):
    """Publishing fails ``faults`` times."""

    faults = 0

    async def publish(self, *arguments: object, **options: object) -> PublishAck:
        if self.faults:
            self.faults -= 1
            raise BusError("the server is away")
        return await super().publish(*arguments, **options)  # type: ignore[arg-type]  # handed on as they came


# --- answering


async def test_task_is_answered_and_leaves_the_queue(role: RoleAtWork) -> None:
    async with role.working(Handler()):
        await role.give(make_contract())
        assert await role.result() == make_result(make_contract())
        await role.queue_empties()
    (message,) = await role.stored(result_subject("worker"))
    assert message.headers["Gw-Schema"] == "task_result.v1"
    assert message.headers["Nats-Msg-Id"] == f"{RUN}:{make_contract().task_id}:task_result.v1"
    assert role.tasks("answered") == 1
    assert not await role.dead()


async def test_trace_of_the_task_goes_on_with_the_answer(role: RoleAtWork) -> None:
    async with role.working(Handler()):
        await role.give(make_contract(), traceparent=TRACE)
        await role.result()
    (message,) = await role.stored(result_subject("worker"))
    assert message.headers["traceparent"] == TRACE
    assert b'"trace_id":"0af7651916cd43dd8448eb211c80319c"' in role.log.getvalue()


async def test_handler_can_keep_and_fetch_artifacts(role: RoleAtWork) -> None:
    async def work(task: TaskContract, context: TaskContext) -> Document:
        uri = await context.artifacts.put(b"patch")
        assert await context.artifacts.get(uri) == b"patch"
        return make_result(task, summary=uri)

    async with role.working(Handler(work)):
        await role.give(make_contract())
        result = await role.result()
    assert isinstance(result, TaskResult)
    assert result.summary.startswith("artifact:sha256:")


async def test_error_document_of_a_handler_is_an_answer(role: RoleAtWork) -> None:
    async def work(_task: TaskContract, _context: TaskContext) -> Document:
        return Error(code="missing_fields", message="no paths")

    async with role.working(Handler(work)):
        await role.give(make_contract())
        assert (await role.error()).run_id == RUN
        await role.queue_empties()
    assert not await role.dead()


async def test_task_that_comes_again_after_it_was_done_is_answered_under_the_same_id(role: RoleAtWork) -> None:
    handler = Handler()
    async with role.working(handler):
        for number in range(2):
            await role.give_bytes(codec.encode(make_contract()), message_id=f"gatekeeper restarted {number}")
            await role.queue_empties()
    assert len(handler.seen) == 2
    assert len(await role.results()) == 1


async def test_one_task_at_a_time_by_default(role: RoleAtWork) -> None:
    handler = Handler(sleeping(0.1))
    async with role.working(handler):
        await role.give(make_contract("run-000000001"))
        await role.give(make_contract("run-000000002"))
        await handler.started.wait()
        await asyncio.sleep(0.02)
        assert len(handler.seen) == 1
        await role.queue_empties()
    assert len(handler.seen) == 2


async def test_concurrency_bounds_the_tasks_in_hand(role: RoleAtWork) -> None:
    handler = Handler(sleeping(0.1))
    async with role.working(handler, replace(QUICK, concurrency=2)):
        for number in range(5):
            await role.give(make_contract(f"run-00000000{number}"))
        await handler.started.wait()
        await asyncio.sleep(0.03)
        assert len(handler.seen) == 2
        await role.queue_empties()
    assert len(await role.results()) == 5


# --- refusing


async def test_message_that_is_no_task_ends_its_run_and_is_put_aside(role: RoleAtWork) -> None:
    handler = Handler()
    async with role.working(handler):
        await role.give_bytes(b'{"task_id": "task-0001", "log_refs": {"run_id": "run-0123456789"}}')
        error = await role.error()
        await role.queue_empties()
    assert (error.code, error.run_id, error.task_id, error.role) == ("malformed", RUN, "task-0001", "worker")
    (letter,) = await role.dead()
    assert letter.data == b'{"task_id": "task-0001", "log_refs": {"run_id": "run-0123456789"}}'
    assert letter.headers["Gw-Dead-Code"] == "malformed"
    assert letter.headers["Gw-Dead-Subject"] == "gw.task.worker.default.normal"
    assert letter.headers["Gw-Dead-Attempts"] == "1"
    assert not handler.seen


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"[" * 100_000, b"null", b'{"task_id": 7}'])
async def test_message_that_names_no_run_is_put_aside_and_the_queue_goes_on(role: RoleAtWork, data: bytes) -> None:
    async with role.working(Handler()):
        await role.give_bytes(data)
        await role.give(make_contract())
        await role.result()
        await role.queue_empties()
    (letter,) = await role.dead()
    assert letter.data == data


async def test_task_for_another_role_is_refused(role: RoleAtWork) -> None:
    handler = Handler()
    async with role.working(handler):
        await role.give_bytes(codec.encode(make_contract()), schema="request_task.v1")
        assert (await role.error()).code == "schema_not_accepted"
    assert not handler.seen


async def test_denied_task_is_refused_with_its_reason_and_not_tried_again(role: RoleAtWork) -> None:
    handler = Handler(raising(DeniedError("not with me", code="scope_violation")))
    async with role.working(handler):
        await role.give(make_contract())
        error = await role.error()
        await role.queue_empties()
    assert (error.code, error.message) == ("scope_violation", "not with me")
    assert len(handler.seen) == 1
    assert len(await role.dead()) == 1
    assert role.tasks("refused") == 1


async def test_secret_in_an_error_leaves_neither_as_answer_nor_as_dead_letter(role: RoleAtWork) -> None:
    async with role.working(Handler(raising(DeniedError("cannot fetch https://me:hunter2@host/")))):
        await role.give(make_contract())
        error = await role.error()
        await role.queue_empties()
    assert "hunter2" not in error.message
    assert "hunter2" not in str((await role.dead())[0].headers)
    assert b"hunter2" not in role.log.getvalue()


async def test_reason_with_line_breaks_cannot_add_a_header(role: RoleAtWork) -> None:
    async with role.working(Handler(raising(DeniedError("no\r\nNats-Rollup: all\r\n\r\nbody \u202e")))):
        await role.give(make_contract())
        await role.queue_empties()
    (letter,) = await role.dead()
    assert letter.headers["Gw-Dead-Reason"] == "no??Nats-Rollup: all????body ?"
    assert "Nats-Rollup" not in letter.headers


async def test_hostile_task_id_is_data_and_nothing_else(role: RoleAtWork) -> None:
    contract = make_contract(task_id="x\r\nNats-Rollup: all\r\n >*.")
    async with role.working(Handler()):
        await role.give_bytes(codec.encode(contract))
        assert await role.result() == make_result(contract)
    assert len(role.log.getvalue().splitlines()) == len(role.events())


async def test_answer_of_the_wrong_kind_ends_the_task(role: RoleAtWork) -> None:
    async def work(task: TaskContract, _context: TaskContext) -> Document:
        return task

    async with role.working(Handler(work)):
        await role.give(make_contract())
        assert (await role.error()).code == "answer_not_valid"
        await role.queue_empties()


async def test_answer_about_another_task_ends_the_task(role: RoleAtWork) -> None:
    async def work(_task: TaskContract, _context: TaskContext) -> Document:
        return make_result(make_contract("run-of-someone"))

    async with role.working(Handler(work)):
        await role.give(make_contract())
        error = await role.error()
    assert (error.code, error.run_id) == ("answer_not_valid", RUN)


async def test_letter_that_is_too_large_for_its_headers_is_kept_as_an_artifact(role: RoleAtWork) -> None:
    data = b"x" * (MAX_MESSAGE_BYTES - 10)
    message = Message("gw.task.worker.default.normal", data, {"Gw-Schema": "no schema\r\n"}, 7)
    for _ in range(2):
        await publish_dead_letter(role.bus, "worker", "TASKS", message, attempts=1, code="malformed", reason="")
    (letter,) = await role.dead()
    assert await role.bus.get_artifact(letter.headers["Gw-Dead-Artifact"]) == data
    assert (letter.data, letter.headers["Gw-Schema"], letter.headers["Gw-Dead-Reason"]) == (b"", "unknown", "-")


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
    assert "cancellation_not_understood" in role.events()


# --- leaving


async def test_idle_runner_leaves_at_once(role: RoleAtWork) -> None:
    begun = time.monotonic()
    async with role.working(Handler()):
        await asyncio.sleep(0.05)
    assert time.monotonic() - begun < 0.3


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


async def test_bus_that_takes_no_answer_ends_the_process_and_the_task_comes_back(role: RoleAtWork) -> None:
    bus = BrokenBus(role.server)
    bus.faults = 100
    await role.give(make_contract())
    with pytest.raises(BusError):
        await role.runner(Handler(), QUICK, bus).run(asyncio.Event())
    async with role.working(Handler()):
        assert isinstance(await role.result(), TaskResult)


async def test_refusal_is_told_before_the_task_is_taken_off_the_queue(role: RoleAtWork) -> None:
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
