"""How tasks, answers and cancellations look on the bus: who accepts and answers what, and under which ids. Pure, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, get_args

import msgspec

from gatewright.bus.port import SCHEMA_HEADER, TASK_TOKEN_HEADER, TRACE_HEADER, Message
from gatewright.bus.subjects import HEADER_BYTES, MAX_MESSAGE_BYTES
from gatewright.bus.topology import Role
from gatewright.contracts import (
    Error,
    Plan,
    RequestTask,
    ReviewReport,
    SummonsAnswer,
    SummonsTask,
    TaskContract,
    TaskResult,
    TestReport,
    codec,
)
from gatewright.contracts.people.summons import SummonsRole
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError, SandboxError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.reasons import family_of
from gatewright.tasks.disposition import Disposition
from gatewright.tracing.spans import TraceContext, read_traceparent

#: Name of the input artifact that holds the canonical patch of the candidate, for the reviewer and the test runner.
CANDIDATE: Final = "candidate.patch"
#: What a role is sent (by schema) and what it answers (by type); besides, every role may answer with an Error.
ACCEPTS: Mapping[Role, str] = {
    "pm": "request_task.v1",
    "techlead": "task_contract.v1",
    "worker": "task_contract.v1",
    "reviewer": "task_contract.v1",
    "testrunner": "task_contract.v1",
}
ANSWERS: Mapping[Role, type[Document]] = {
    "pm": TaskContract,
    "techlead": Plan,
    "worker": TaskResult,
    "reviewer": ReviewReport,
    "testrunner": TestReport,
}

#: Roles that are asked questions beside runs, too: a question has a schema of its own, and so has its answer.
SUMMONED: frozenset[Role] = frozenset(get_args(SummonsRole))
QUESTION: Final = "summons_task.v1"

#: Seconds for compiling a request that sets no limit of its own.
REQUEST_SECONDS = 120.0
#: A larger document would be refused by the bus, every time again.
MAX_ANSWER_BYTES = MAX_MESSAGE_BYTES - HEADER_BYTES

_TOKEN = re.compile(r"[0-9a-f]{64}\Z")  # noqa: TID251 - linear: of a fixed length


class TaskRef(NamedTuple):
    """Which task of which run. The ids may come from other systems: they are data, never names of anything."""

    run_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class DeliveredTask:
    """A task as it was delivered. ``seconds`` is its time limit."""

    document: Document
    ref: TaskRef
    attempt: int
    seconds: float


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """An answer ready to be published. ``message_id`` is the same whenever the same task is answered with the same kind."""

    data: bytes
    schema: str
    message_id: str


def read_task(role: Role, message: Message) -> DeliveredTask:
    """The task in ``message``. Raises MalformedError (UnknownSchemaError) when it is none that ``role`` accepts."""
    schema = message.headers.get(SCHEMA_HEADER, "")
    if schema != ACCEPTS[role] and not (schema == QUESTION and role in SUMMONED):
        raise MalformedError(f"{role} accepts {ACCEPTS[role]}, not {schema[:80]!r}", code="schema_not_accepted")
    match codec.decode_named(message.data, schema):
        case RequestTask() as order:
            limit = order.request.timeout_retry
            seconds = limit.timeout_sec if limit else REQUEST_SECONDS
            return DeliveredTask(order, TaskRef(order.run_id, order.task_id), 1, seconds)
        case TaskContract() as contract:
            seconds = contract.timeout_retry.timeout_sec
            return DeliveredTask(contract, TaskRef(contract.log_refs.run_id, contract.task_id), contract.attempt, seconds)
        case SummonsTask() as question:
            return DeliveredTask(question, TaskRef(question.run_id, question.task_id), 1, question.timeout_sec)
        case other:
            raise MalformedError(f"{type(other).__name__} is no task", code="schema_not_accepted")


def blames_sandbox(document: Document) -> bool:
    """Return whether the answer reports that the sandbox itself failed."""
    failed = document.failure if isinstance(document, TaskResult | TestReport) else None
    return (failed or "").partition(":")[0] == SandboxError.code


def has_failed(document: Document) -> bool:
    """Return whether the answer reports a failed task or command, or refuses the change."""
    if isinstance(document, TaskResult):
        return document.status == "FAILED"
    if isinstance(document, TestReport):
        return document.status in {"FAIL", "ERROR"}
    if isinstance(document, ReviewReport):
        return document.verdict != "PASS"
    return isinstance(document, Error)


def lacked_room(document: Document) -> bool:
    """Return whether the answer reports a command that was ended because the disk was nearly full."""
    return isinstance(document, TestReport) and any(command.stopped == "disk" for command in document.commands)


def make_answer(role: Role, task: DeliveredTask, document: Document) -> TaskAnswer:
    """``document`` as the answer of ``role`` to ``task``; an Error is completed with the task's ids.

    The bytes are decoded again, so that nothing leaves which its schema would refuse. Raises MalformedError (codes
    ``answer_not_valid``, ``answer_too_large``).
    """
    if isinstance(document, Error):
        document = msgspec.structs.replace(document, run_id=task.ref.run_id, task_id=task.ref.task_id, role=role)
    elif not isinstance(document, SummonsAnswer if isinstance(task.document, SummonsTask) else ANSWERS[role]):
        raise MalformedError(f"{role} may not answer with {type(document).__name__}", code="answer_not_valid")
    elif not _belongs(task, document):
        raise MalformedError(f"the {type(document).__name__} is not about this task", code="answer_not_valid")
    try:
        data = codec.encode(document)
        codec.decode(data, type(document))
    except MalformedError as error:
        raise MalformedError(f"answer of {role}: {error.message}", faults=error.faults, code="answer_not_valid") from error
    if len(data) > MAX_ANSWER_BYTES:
        raise MalformedError(f"answer of {role}: {len(data)} bytes are more than {MAX_ANSWER_BYTES}", code="answer_too_large")
    schema = codec.schema_of(document)
    return TaskAnswer(data, schema, _answer_id(task.ref, schema))


def _answer_id(ref: TaskRef, schema: str) -> str:
    """Task ids of contracts from outside are unique within their run only."""
    return f"{ref.run_id}:{ref.task_id}:{schema}"


def _belongs(task: DeliveredTask, document: Document) -> bool:
    if isinstance(document, TaskContract):
        return document.log_refs.run_id == task.ref.run_id
    attempt = document.attempt if isinstance(document, TaskResult) else task.attempt
    return (getattr(document, "run_id", None), getattr(document, "task_id", None)) == task.ref and attempt == task.attempt


class _LogRefs(msgspec.Struct, frozen=True):
    run_id: str = ""


class _Ids(msgspec.Struct, frozen=True):
    run_id: str = ""
    task_id: str = ""
    log_refs: _LogRefs = _LogRefs()


def ref_of(message: Message) -> TaskRef | None:
    """Return the run and task that an invalid task message names, if it does, so that its run does not wait forever."""
    try:
        ids = read_json(message.data, _Ids)
    except UnreadableDocumentError:
        return None
    run_id = ids.run_id or ids.log_refs.run_id
    return TaskRef(run_id, ids.task_id) if run_id and ids.task_id else None


def refusal(role: Role, ref: TaskRef, why: Disposition) -> TaskAnswer:
    """The Error that ends a task."""
    error = Error(
        code=why.code,
        message=why.message,
        run_id=ref.run_id,
        task_id=ref.task_id,
        role=role,
        family=family_of(why.code, why.family),
    )
    schema = codec.schema_of(error)
    return TaskAnswer(codec.encode(error), schema, _answer_id(ref, schema))


def carried_headers(message: Message) -> dict[str, str]:
    """Return the headers that an answer copies from its task: the trace, and the token that proves possession of the task."""
    token, trace = message.headers.get(TASK_TOKEN_HEADER, ""), traceparent(message)
    return ({TRACE_HEADER: trace} if trace else {}) | ({TASK_TOKEN_HEADER: token} if _TOKEN.match(token) else {})


def traceparent(message: Message) -> str:
    """The W3C ``traceparent`` that came with a message; empty when none did, or no valid one."""
    trace = message.headers.get(TRACE_HEADER, "")
    return trace if read_traceparent(trace) else ""


def trace_id(message: Message) -> str:
    """The 32 hexadecimal digits that name the trace, or ``""``."""
    found = trace_context(message)
    return found.trace_id if found else ""


def trace_context(message: Message) -> TraceContext | None:
    """The span that a message names as what its handling is a part of."""
    return read_traceparent(message.headers.get(TRACE_HEADER, ""))


def cancel_notice(*run_ids: str) -> bytes:
    """The payload of a broadcast on ``gw.cancel``: one run id as a JSON string, or several as an array."""
    return msgspec.json.encode(run_ids[0] if len(run_ids) == 1 else run_ids)


def read_cancel_notice(data: bytes) -> tuple[str, ...]:
    """The run ids of a cancellation. Raises MalformedError."""
    try:
        named = read_json(data, str | tuple[str, ...])
    except UnreadableDocumentError as error:
        raise MalformedError(f"not a cancellation: {error}") from error
    return (named,) if isinstance(named, str) else named
