"""Events of one transition have the same time, and no verdict is older than its run."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file, moment_of
from gatewright.rules.reports.times import CODE as TIMES
from gatewright.rules.reports.times import out_of_time
from gatewright.run import events as e
from gatewright.run import states

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
