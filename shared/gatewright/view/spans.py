"""Trace spans of a run with their ids, derived from its ledger alone: run, states, tasks, questions, gates and waits.

So every gatekeeper that seals a run exports the same trace, and a lost trace can be exported again. Roles export the spans
within their tasks: a task's message carries the id of its span (``task_context``). Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from gatewright.bus.topology import DEFAULT_POOL, task_queue, task_subject
from gatewright.contracts.records import OrchestratorEvent, Transition
from gatewright.errors import MalformedError
from gatewright.run import events as e
from gatewright.run.state import Run, TaskRole
from gatewright.run.states import TERMINAL, stage_name
from gatewright.tracing import conventions as c
from gatewright.tracing.spans import AttributeValue, FinishedSpan, SpanKind, TraceContext

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RESULTS: Final = {"SUCCESS": "success", "FAILED": "failure", "ABORTED": "cancellation", "RUNNING": "error"}
_UNDER_WAY: Final = frozenset({e.TaskDispatched.event_type, e.UsageReported.event_type})
#: Events that follow from a pm's answer.
_COMPILED: Final = frozenset({e.ContractCompiled.event_type, e.GateJudged.event_type})


def run_context(run: Run) -> TraceContext:
    """Return the span of a whole run."""
    return TraceContext(run.trace_id, _id("run", run.run_id))


def task_context(trace_id: str, task_id: str) -> TraceContext:
    """Return the parent span in the message of a task; the same for every delivery."""
    return TraceContext(trace_id, hashlib.sha256(task_id.encode()).hexdigest()[:16])


def run_spans(run: Run, transitions: Sequence[Transition]) -> tuple[FinishedSpan, ...]:
    """Return all spans of an ended run, parents before children.

    Raises:
        MalformedError: an event cannot be read.
    """
    records = [record for transition in transitions for record in transition.events]
    if not records:
        return ()
    return tuple(_Story(run, records).spans())


class _Story:
    """The events of one run, decoded once."""

    def __init__(self, run: Run, records: Sequence[OrchestratorEvent]) -> None:
        self._run = run
        self._records = records
        self._root = run_context(run)
        self._end = _nanoseconds(records[-1].ts)

    def spans(self) -> Iterator[FinishedSpan]:
        run, accepted = self._run, self._run.accepted
        attributes: dict[str, AttributeValue] = {
            c.RUN_ID: run.run_id,
            c.PUBLISHER: run.publisher,
            c.PIPELINE_NAME: "gatewright",
            c.PIPELINE_RUN_ID: run.run_id,
            c.PIPELINE_RESULT: _RESULTS[run.status],
            c.REPOSITORY_URL: accepted.repository_url,
            c.BASE_REVISION: accepted.baseline_commit,
        }
        if run.landed is not None and run.landed.ref:
            attributes |= {c.HEAD_REF: run.landed.ref, c.HEAD_REVISION: run.landed.commit}
        failure = run.failure.code if run.failure is not None else ""
        yield FinishedSpan(
            f"run {run.run_id}", self._root, accepted.caller_span, self._begin_time, self._end, "server", attributes, failure
        )
        yield from self._states()

    @property
    def _begin_time(self) -> int:
        return _nanoseconds(self._records[0].ts)

    def _states(self) -> Iterator[FinishedSpan]:
        """Yield each state followed by everything that started in it."""
        entered = [0, *(n for n, record in enumerate(self._records) if record.event_type == e.StateEntered.event_type)]
        for first, after in zip(entered, [*entered[1:], len(self._records)], strict=True):
            record = self._records[first]
            state = str(record.payload["state"]) if record.event_type == e.StateEntered.event_type else "S0"
            # The event that leaves a state is the one that enters the next.
            last = self._records[min(after, len(self._records) - 1)]
            name = "seal" if state in TERMINAL else stage_name(state)
            attributes: dict[str, AttributeValue] = {c.STATE: state, c.ATTEMPT: record.attempt or 1}
            context = self._context("state", str(record.seq))
            yield self._part(name, context, self._root.span_id, record, last, attributes=attributes)
            for number in range(first, after):
                yield from self._step_spans(number, context.span_id)

    def _step_spans(self, number: int, state: str) -> Iterator[FinishedSpan]:
        record = self._records[number]
        match record.event_type:
            case e.TaskDispatched.event_type:
                yield from self._task(number, state)
            case e.SummonsAsked.event_type:
                yield from self._summons(number, state)
            case e.GateJudged.event_type:
                yield self._gate(record, state)
            case e.LocksWaiting.event_type:
                taken = self._first_after(number, e.LocksTaken.event_type)
                yield self._part("wait for locks", self._context("locks", str(record.seq)), state, record, taken)

    def _task(self, number: int, state: str) -> Iterator[FinishedSpan]:
        """Yield a task from dispatch to answer, and the message that dispatched it."""
        record = self._records[number]
        task = e.event_of(record)
        if not isinstance(task, e.TaskDispatched):
            raise MalformedError(f"event {record.seq} gives out no task", code="bad_event")
        answered = next((later for later in self._records[number + 1 :] if _answers(later, task)), None)
        context = self._context("task", task.task_id)
        attributes: dict[str, AttributeValue] = {
            c.TASK_ID: task.task_id,
            c.ATTEMPT: record.attempt or 1,
            c.PIPELINE_TASK_NAME: task.role,
            c.PIPELINE_TASK_RUN_ID: task.task_id,
        }
        yield self._part(
            f"task {task.role}", context, state, record, answered, attributes=attributes, error=self._failure(answered)
        )
        yield self._send_span(task.role, task.pool, task.task_id, context, record)

    def _summons(self, number: int, state: str) -> Iterator[FinishedSpan]:
        """Yield a question beside the run from dispatch to answer, and its message.

        That message is the parent of the answering role's spans.
        """
        record = self._records[number]
        asked = e.event_of(record)
        if not isinstance(asked, e.SummonsAsked):
            raise MalformedError(f"event {record.seq} asks no question", code="bad_event")
        task = asked.task
        role = task.item.role
        answers = (later for later in self._records[number + 1 :] if later.event_type == e.SummonsAnswered.event_type)
        answered = next((later for later in answers if later.task_id == task.task_id), None)
        context = self._context("summons", task.task_id)
        attributes: dict[str, AttributeValue] = {
            c.TASK_ID: task.task_id,
            c.PIPELINE_TASK_NAME: role,
            c.PIPELINE_TASK_RUN_ID: task.task_id,
        }
        answer = known.answer if (known := self._run.summonses.get(task.task_id)) is not None else None
        error = "unanswered" if answer is None else "" if answer.status == "ANSWERED" else answer.code
        yield self._part(f"summons {role}", context, state, record, answered, attributes=attributes, error=error)
        yield self._send_span(role, known.pool if known is not None else DEFAULT_POOL, task.task_id, context, record)

    def _send_span(
        self, role: TaskRole, pool: str, task_id: str, context: TraceContext, record: OrchestratorEvent
    ) -> FinishedSpan:
        """Return the span of a dispatching message, the parent of the role's spans."""
        queue = task_queue(task_subject(role, pool))
        sent: dict[str, AttributeValue] = {
            c.MESSAGING_SYSTEM: "nats",
            c.MESSAGING_DESTINATION: queue,
            c.MESSAGING_OPERATION: "publish",
            c.MESSAGING_OPERATION_TYPE: "send",
            c.MESSAGING_MESSAGE_ID: task_id,
        }
        message = task_context(self._root.trace_id, task_id)
        return self._part(f"send {queue}", message, context.span_id, record, record, "producer", attributes=sent)

    def _gate(self, record: OrchestratorEvent, state: str) -> FinishedSpan:
        judged = e.event_of(record)
        if not isinstance(judged, e.GateJudged):
            raise MalformedError(f"event {record.seq} is no verdict", code="bad_event")
        report = judged.report
        end = _nanoseconds(report.evaluated_at)
        attributes: dict[str, AttributeValue] = {c.GATE: report.gate, c.GATE_VERDICT: report.verdict, c.GATE_CODE: report.code}
        if report.task_id:
            attributes[c.TASK_ID] = report.task_id
        context = self._context("gate", str(record.seq))
        start = end - int((report.duration_ms or 0) * 1_000_000)
        error = report.code if report.verdict == "FAIL" else ""
        return FinishedSpan(f"gate {report.gate}", context, state, start, end, "internal", attributes, error)

    def _part(
        self,
        name: str,
        context: TraceContext,
        parent: str,
        first: OrchestratorEvent,
        last: OrchestratorEvent | None,
        kind: SpanKind = "internal",
        *,
        attributes: dict[str, AttributeValue] | None = None,
        error: str = "",
    ) -> FinishedSpan:
        """Return a span from one event to another; to the end of the run without a second one."""
        end = self._end if last is None else _nanoseconds(last.ts)
        return FinishedSpan(name, context, parent, _nanoseconds(first.ts), end, kind, attributes or {}, error)

    def _failure(self, answer: OrchestratorEvent | None) -> str:
        """Return the reason code of an unsuccessful answer; empty for a successful one."""
        if answer is None:
            return "unanswered"
        if answer.level != "ERROR":
            return ""
        if answer.event_type == e.TaskFinished.event_type and (code := self._refusal_after(answer)):
            return code
        return _code(answer)

    def _refusal_after(self, answer: OrchestratorEvent) -> str:
        """Return the code of the verdict that refused a result. Empty when no gate judged it because the task itself failed."""
        for later in self._records[answer.seq :]:
            payload = e.event_of(later)
            if later.task_id == answer.task_id and isinstance(payload, e.GateJudged):
                return payload.report.code if payload.report.verdict == "FAIL" else ""
        return ""

    def _first_after(self, number: int, event_type: str) -> OrchestratorEvent | None:
        return next((record for record in self._records[number + 1 :] if record.event_type == event_type), None)

    def _context(self, *of: str) -> TraceContext:
        return TraceContext(self._root.trace_id, _id(*of, self._run.run_id))


def _answers(later: OrchestratorEvent, task: e.TaskDispatched) -> bool:
    """Return whether an event ends the task."""
    if task.role == "pm" and later.event_type in _COMPILED:
        return True  # these carry the id of the compiled contract
    return later.task_id == task.task_id and later.event_type not in _UNDER_WAY


def _code(record: OrchestratorEvent) -> str:
    """Return the reason code of an event about a failure."""
    payload = e.event_of(record)
    match payload:
        case e.TaskFailed(error=error):
            return error.code
        case e.GateJudged(report=report):
            return report.code
        case e.TaskFinished(result=result):
            return (result.failure or "failed").partition(":")[0]
        case _:
            return record.event_type


def _id(*of: str) -> str:
    return hashlib.sha256("\0".join(of).encode()).hexdigest()[:16]


def _nanoseconds(text: str) -> int:
    """Return a document's time in nanoseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1000
