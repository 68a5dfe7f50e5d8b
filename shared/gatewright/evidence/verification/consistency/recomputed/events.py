"""Labels of events follow from the run and the payload; their times follow from the transition."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import OrchestratorEvent
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file, moment_of
from gatewright.rules.reports.times import CODE as TIMES
from gatewright.rules.reports.times import out_of_time
from gatewright.run import events as e
from gatewright.run import states
from gatewright.run.state import Run

#: Events that never start a transition: they follow from the previous event.
_FOLLOWING = (
    *(e.ContractCompiled, e.TransferPlanned, e.PlanAccepted, e.TaskDispatched, e.LocksTaken, e.LocksReleased),
    *(e.CandidateComposed, e.CandidateChosen, e.FixOrdered, e.Landed, e.RunFinished, e.ApprovalByRule, e.ApprovalByGrant),
)
#: States that a run may enter in a transition of its own; every other state follows from an earlier event.
_BEGUN: frozenset[states.State] = frozenset({"S2", "FAILED"})


def check_times(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check times.

    1. An event that follows from another has its time.
    2. Times in verdicts are plausible.
    """
    last = replayed.history.records[0].ts
    for number, moment in enumerate(replayed.moments):
        if moment.record.ts != last and (number == 0 or _follows(moment)):  # 1
            words = f"{moment.record.event_type} follows from the event before it, which happened {last}"
            yield moment.contradiction(TIMES, layout.EVENTS, layout.EVENTS, f"{words}, and it happened {moment.record.ts}")
        last = moment.record.ts
        report = moment.payload.report if isinstance(moment.payload, e.GateJudged) else None
        when = moment.when if moment_of(moment.whole.created_at) is not None else None
        if report is not None and when is not None and (words := out_of_time(moment.whole, when, report.evaluated_at)):  # 2
            yield moment.contradiction(TIMES, gate_file(moment.gates, report), layout.EVENTS, words)


def _follows(moment: Moment) -> bool:
    payload, kind = moment.payload, moment.before.kind
    begun = _BEGUN | ({"S6"} if kind.voted and not kind.lands else set())  # people may have answered last
    return isinstance(payload, _FOLLOWING) or (isinstance(payload, e.StateEntered) and payload.state not in begun)


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
