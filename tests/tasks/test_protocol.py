"""What a role accepts as a task, and what it lets out as an answer."""

from __future__ import annotations

from typing import get_args

import pytest

from gatewright.bus.port import Message
from gatewright.bus.topology import TASK_ROLES, Role
from gatewright.contracts import Error, RequestTask, TaskContract, codec
from gatewright.contracts.vocabulary import Document, TimeoutRetry
from gatewright.errors import MalformedError
from gatewright.tasks import protocol as task_protocol
from gatewright.tasks.disposition import Disposition
from gatewright.tasks.protocol import (
    DeliveredTask,
    TaskRef,
    cancel_notice,
    make_answer,
    read_cancel_notice,
    read_task,
    ref_of,
    refusal,
    trace_id,
    traceparent,
)
from tests.factories import BASELINE, make_contract, make_request
from tests.tasks.role_at_work import make_result

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def make_message(document: Document, **headers: str) -> Message:
    return Message("gw.task.x.default", codec.encode(document), {"Gw-Schema": codec.schema_of(document), **headers})


def make_task(contract: TaskContract | None = None) -> DeliveredTask:
    return read_task("worker", make_message(contract or make_contract()))


def make_request_task() -> RequestTask:
    return RequestTask(run_id="run-0123456789", task_id="run-0123456789.pm", baseline_commit=BASELINE, request=make_request())


def test_every_task_role_has_its_kinds() -> None:
    assert set(task_protocol.ACCEPTS) == set(task_protocol.ANSWERS) == set(TASK_ROLES)
    assert set(task_protocol.ACCEPTS) < set(get_args(Role))


def test_pm_takes_requests_and_the_others_take_contracts() -> None:
    task = read_task("pm", make_message(make_request_task()))
    assert (task.ref, task.attempt, task.seconds) == (TaskRef("run-0123456789", "run-0123456789.pm"), 1, 120.0)
    contract = make_contract(attempt=2, timeout_retry=TimeoutRetry(timeout_sec=7, max_retries=0, retry_backoff_sec=0))
    task = make_task(contract)
    assert (task.document, task.ref.run_id, task.attempt, task.seconds) == (contract, "run-0123456789", 2, 7)


@pytest.mark.parametrize(
    ("role", "schema", "code"),
    [
        ("worker", "request_task.v1", "schema_not_accepted"),
        ("pm", "task_contract.v1", "schema_not_accepted"),
        ("worker", "task_contract.v2", "schema_not_accepted"),
        ("worker", "", "schema_not_accepted"),
        ("worker", "TASK_CONTRACT.V1", "schema_not_accepted"),
    ],
)
def test_schema_that_the_role_does_not_take_is_refused(role: Role, schema: str, code: str) -> None:
    message = Message("s", codec.encode(make_contract()), {"Gw-Schema": schema} if schema else {})
    with pytest.raises(MalformedError) as refused:
        read_task(role, message)
    assert refused.value.reason == code


def test_header_that_lies_about_the_payload_is_found_out() -> None:
    with pytest.raises(MalformedError) as refused:
        read_task("worker", Message("s", codec.encode(make_request_task()), {"Gw-Schema": "task_contract.v1"}))
    assert refused.value.faults


def test_answer_of_the_same_task_has_the_same_message_id() -> None:
    contract = make_contract()
    task = make_task(contract)
    first = make_answer("worker", task, make_result(contract))
    again = make_answer("worker", task, make_result(contract, summary="other words"))
    assert first.message_id == again.message_id == f"run-0123456789:{contract.task_id}:task_result.v1"
    assert (first.schema, codec.decode_named(first.data, first.schema)) == ("task_result.v1", make_result(contract))


def test_equal_task_ids_of_two_runs_do_not_silence_each_other() -> None:
    contracts = [make_contract(run_id, task_id="task-0001") for run_id in ("run-0123456789", "run-9876543210")]
    answers = [make_answer("worker", make_task(contract), make_result(contract)) for contract in contracts]
    assert answers[0].message_id != answers[1].message_id


def test_error_always_carries_the_ids_of_its_task() -> None:
    task = make_task()
    answer = make_answer("worker", task, Error(code="nope", message="no", run_id="another-run", role="gatekeeper"))
    error = codec.decode(answer.data, Error)
    assert (error.run_id, error.task_id, error.role) == (*task.ref, "worker")


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "run-of-another"},
        {"task_id": "task-of-another"},
        {"run_id": ""},
        {"attempt": 0},
        {"status": "DONE"},
        {"summary": "\ud800"},
        {"summary": 7},
        {"artifacts": None},
        {"attempt": float("nan")},
    ],
)
def test_answer_that_its_schema_would_refuse_does_not_leave(changes: dict[str, object]) -> None:
    contract = make_contract()
    with pytest.raises(MalformedError) as refused:
        make_answer("worker", make_task(contract), make_result(contract, **changes))
    assert refused.value.reason == "answer_not_valid"


def test_answer_of_another_roles_kind_does_not_leave() -> None:
    contract = make_contract()
    for document in (contract, make_request(), make_request_task()):
        with pytest.raises(MalformedError, match="worker may not answer with"):
            make_answer("worker", make_task(contract), document)


def test_the_contract_of_the_pm_must_match_its_run() -> None:
    task = read_task("pm", make_message(make_request_task()))
    make_answer("pm", task, make_contract("run-0123456789"))
    with pytest.raises(MalformedError, match="not about this task"):
        make_answer("pm", task, make_contract("run-9876543210"))


def test_answer_that_no_message_can_hold_is_refused_at_once() -> None:
    contract = make_contract()
    with pytest.raises(MalformedError) as refused:
        make_answer("worker", make_task(contract), make_result(contract, summary="x" * 9_000_000))
    assert refused.value.reason == "answer_too_large"


@pytest.mark.parametrize(
    ("data", "ref"),
    [
        (b'{"run_id": "r", "task_id": "t", "new_field": 1}', TaskRef("r", "t")),
        (b'{"log_refs": {"run_id": "r", "x": 1}, "task_id": "t"}', TaskRef("r", "t")),
        (b'{"task_id": "t"}', None),
        (b'{"run_id": 1, "task_id": "t"}', None),
        (b"[]", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_ids_are_read_from_a_message_that_is_no_task(data: bytes, ref: TaskRef | None) -> None:
    assert ref_of(Message("s", data)) == ref


def test_refusal_is_a_valid_error_even_for_strange_ids() -> None:
    answer = refusal("worker", TaskRef("r\r\nNats-Rollup: all", "t\x00"), Disposition("refuse", "denied", "no"))
    assert codec.decode(answer.data, Error).run_id == "r\r\nNats-Rollup: all"


@pytest.mark.parametrize(
    "value", ["", "00-xyz", TRACE.upper(), TRACE + "\r\nX: y", TRACE[:-1], "00-" + "a" * 32 + "-" + "b" * 16]
)
def test_trace_header_that_is_none_is_not_passed_on(value: str) -> None:
    message = Message("s", b"", {"traceparent": value})
    assert (traceparent(message), trace_id(message)) == ("", "")


def test_trace_header_is_read() -> None:
    message = Message("s", b"", {"traceparent": TRACE})
    assert (traceparent(message), trace_id(message)) == (TRACE, "0af7651916cd43dd8448eb211c80319c")


def test_cancel_notice_is_the_run_id_as_json() -> None:
    assert cancel_notice("run-1") == b'"run-1"'
    assert read_cancel_notice(cancel_notice("run-1")) == ("run-1",)
    assert read_cancel_notice(cancel_notice("run-1", "run-2")) == ("run-1", "run-2")
    assert read_cancel_notice(cancel_notice()) == ()
    for data in (b"", b"run-1", b"{}", b"\xff", b"null"):
        with pytest.raises(MalformedError):
            read_cancel_notice(data)
