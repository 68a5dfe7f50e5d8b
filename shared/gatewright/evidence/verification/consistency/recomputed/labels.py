"""Labels of events follow from the run and the payload."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import OrchestratorEvent
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.run import events as e
from gatewright.run.state import Run

LABEL = "label_contradicts"
ATTEMPT = "attempt_contradicts"
ROLE_CODE = "role_contradicts"


def check_labels(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check level, task, attempt and role of every event; the gatekeeper sets neither an agent nor a span."""
    first = replayed.history.records[0]
    yield from _differing(first, e.with_labels(replayed.run.accepted, None))
    for moment in replayed.moments:
        record = moment.record
        yield from _differing(record, e.with_labels(moment.payload, moment.whole, record.task_id))
        if isinstance(moment.payload, e.AnswerIgnored) and not _was_given(moment.whole, record.task_id):
            yield moment.contradiction(LABEL, layout.EVENTS, layout.EVENTS, f"{record.task_id} was never given out")


def _was_given(run: Run, task_id: str | None) -> bool:
    task = run.tasks.get(task_id or "")
    return task is not None and task.status != "PENDING"


def _differing(record: OrchestratorEvent, labels: e.LabelledEvent) -> Iterator[Contradiction]:
    for code, name, recorded, expected in (
        (LABEL, "level", record.level, labels.level),
        (LABEL, "task_id", record.task_id, labels.task_id),
        (ATTEMPT, "attempt", record.attempt, labels.attempt),
        (ROLE_CODE, "role", record.role, labels.role),
        (LABEL, "agent_id", record.agent_id, None),
        (LABEL, "span_id", record.span_id, None),
    ):
        if recorded != expected:
            words = f"{record.event_type} has {name} {recorded}, and the event and the run make it {expected}"
            yield Contradiction(code, layout.EVENTS, layout.EVENTS, f"{words} (event {record.seq})")
