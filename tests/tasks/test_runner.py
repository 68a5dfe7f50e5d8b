"""The runner's promises: every task is answered once or refused with a reason, whatever happens to handler, process or bus."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gatewright.bus.port import Message
from gatewright.bus.subjects import MAX_MESSAGE_BYTES
from gatewright.bus.topology import result_subject
from gatewright.contracts import Error, TaskContract, TaskResult, codec
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.kinds_of_work import raising, sleeping
from tests.tasks.role_at_work import QUICK, Handler, RoleAtWork, make_result

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RUN = "run-0123456789"


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


async def test_task_repeated_after_completion_is_answered_under_the_same_id(role: RoleAtWork) -> None:
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
async def test_a_message_without_a_run_becomes_a_dead_letter(role: RoleAtWork, data: bytes) -> None:
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


async def test_an_oversized_dead_letter_is_kept_as_an_artifact(role: RoleAtWork) -> None:
    data = b"x" * (MAX_MESSAGE_BYTES - 10)
    message = Message("gw.task.worker.default.normal", data, {"Gw-Schema": "no schema\r\n"}, 7)
    for _ in range(2):
        await publish_dead_letter(role.bus, "worker", "TASKS", message, attempts=1, code="malformed", reason="")
    (letter,) = await role.dead()
    assert await role.bus.get_artifact(letter.headers["Gw-Dead-Artifact"]) == data
    assert (letter.data, letter.headers["Gw-Schema"], letter.headers["Gw-Dead-Reason"]) == (b"", "unknown", "-")
