"""The timeline of a run: states and tasks as spans, gates as marks, in seconds since acceptance. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from gatewright.contracts import OrchestratorEvent
from gatewright.run import events as e
from gatewright.run.states import STATE_NAMES

Ending = Literal["good", "bad", "open"]


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A span in seconds. A span that never ended stops at the end of the run, and its ending is ``open``."""

    start: float
    end: float
    ending: Ending = "good"
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """The verdict of a gate at a point in time."""

    at: float
    gate: str
    passed: bool
    code: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the drawing. ``kind`` is ``state`` or ``task``; a task follows the state that dispatched it."""

    kind: Literal["state", "task"]
    name: str
    state: str
    spans: tuple[TimelineSpan, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def seconds(self) -> float:
        return sum(span.end - span.start for span in self.spans)


@dataclass(frozen=True, slots=True)
class Timeline:
    """The timeline. ``rows``: in the order of the states. ``attempts``: start times of the fix rounds."""

    rows: tuple[Row, ...]
    attempts: tuple[float, ...]
    seconds: float


@dataclass
class _Drawing:
    begun: datetime
    last: float = 0.0
    state: str = "S0"
    since: float = 0.0
    attempt: int = 1
    states: dict[str, Row] = field(default_factory=dict)
    tasks: dict[str, Row] = field(default_factory=dict)
    given: dict[str, tuple[float, int]] = field(default_factory=dict)
    role_task: dict[str, str] = field(default_factory=dict)
    attempts: list[float] = field(default_factory=list)


def timeline_of(records: Sequence[OrchestratorEvent], run_id: str, now: datetime | None = None) -> Timeline:
    """Return the timeline of the events of a run; open spans continue until ``now``.

    Raises:
        MalformedError: the payload of an event is invalid.
    """
    if not records:
        return Timeline((), (), 0.0)
    drawing = _Drawing(_moment(records[0].ts))
    drawing.states["S0"] = Row("state", STATE_NAMES["S0"], "S0")
    for record in records:
        drawing.last = max(drawing.last, (_moment(record.ts) - drawing.begun).total_seconds())
        _apply(drawing, record)
    is_open = drawing.state not in {"S6", "FAILED", "ABORTED"}
    if is_open and now is not None:
        drawing.last = max(drawing.last, (now - drawing.begun).total_seconds())
    _close_state(drawing, "open" if is_open else "good")
    for task_id in list(drawing.given):
        _close_task(drawing, task_id, "open")
    return Timeline(_rows(drawing, run_id), tuple(drawing.attempts), drawing.last)


def _apply(drawing: _Drawing, record: OrchestratorEvent) -> None:
    match e.event_of(record):
        case e.StateEntered(state=state):
            _close_state(drawing, "bad" if state in {"FAILED", "ABORTED", "S5"} else "good")
            drawing.state, drawing.since = state, drawing.last
            drawing.states.setdefault(state, Row("state", STATE_NAMES[state], state))
        case e.FixOrdered(attempt=attempt):
            drawing.attempt = attempt
            drawing.attempts.append(drawing.last)
            for task_id in list(drawing.given):
                _close_task(drawing, task_id, "open")
        case e.TaskDispatched(task_id=task_id, role=role):
            drawing.given[task_id] = (drawing.last, drawing.attempt)
            drawing.role_task[role] = task_id
            drawing.tasks.setdefault(task_id, Row("task", task_id, drawing.state))
        case e.TaskFinished(result=result, accepted=accepted):
            _close_task(drawing, result.task_id, "good" if accepted else "bad")
        case e.TaskFailed(error=error):
            _close_task(drawing, error.task_id or "", "bad")
        case e.ContractCompiled():
            _close_task(drawing, drawing.role_task.get("pm", ""), "good")
        case e.PlanAccepted():
            _close_task(drawing, drawing.role_task.get("techlead", ""), "good")
        case e.ReviewReceived(report=review):
            task_id = _judged_task(drawing, "reviewer", review.task_id)
            _close_task(drawing, task_id, "good" if review.verdict == "PASS" else "bad")
        case e.TestsReceived(report=tests):
            task_id = _judged_task(drawing, "testrunner", tests.task_id)
            _close_task(drawing, task_id, "good" if tests.status == "PASS" else "bad")
        case e.GateJudged(report=report):
            mark = Mark(drawing.last, report.gate, report.verdict == "PASS", report.code)
            rows, key = (drawing.tasks, report.task_id) if report.task_id in drawing.tasks else (drawing.states, drawing.state)
            rows[key or drawing.state] = replace(rows[key or drawing.state], marks=(*rows[key or drawing.state].marks, mark))
        case _:
            pass


def _judged_task(drawing: _Drawing, role: str, task_id: str | None) -> str:
    """Return the task that a judge's answer is about: the task that it names if dispatched, else the role's last task."""
    return task_id if task_id in drawing.given else drawing.role_task.get(role, "")


def _close_state(drawing: _Drawing, ending: Ending) -> None:
    row = drawing.states[drawing.state]
    span = TimelineSpan(drawing.since, drawing.last, ending, drawing.attempt)
    drawing.states[drawing.state] = replace(row, spans=(*row.spans, span))


def _close_task(drawing: _Drawing, task_id: str, ending: Ending) -> None:
    if task_id not in drawing.given:
        return
    start, attempt = drawing.given.pop(task_id)
    row = drawing.tasks[task_id]
    drawing.tasks[task_id] = replace(row, spans=(*row.spans, TimelineSpan(start, drawing.last, ending, attempt)))


def _rows(drawing: _Drawing, run_id: str) -> tuple[Row, ...]:
    rows: list[Row] = []
    for state, row in drawing.states.items():
        rows.append(row)
        inside = (task for task in drawing.tasks.values() if task.state == state)
        rows += [replace(task, name=task.name.removeprefix(f"{run_id}.")) for task in inside]
    return tuple(rows)


def _moment(stamp: str) -> datetime:
    """Parse the time of an event; an invalid time becomes the minimum datetime."""
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.fromisoformat("1970-01-01T00:00:00+00:00").tzinfo)
