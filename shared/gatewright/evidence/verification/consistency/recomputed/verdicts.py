"""Every verdict names the objects that the gate must examine and the rules that it must apply, and states its findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, takewhile

from gatewright.contracts import GateReport
from gatewright.contracts.people.approvals import LEFT_OPEN
from gatewright.contracts.reports import GateName
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file
from gatewright.rules.gate_evidence import (
    Decision,
    decided_request,
    expected_evidence,
    faults_of_counts,
    faults_of_evidence,
    faults_of_violations,
    missing_rules,
)
from gatewright.run import events as e

EVIDENCE = "gate_evidence_missing"
MISSING = "gate_missing"
TURN = "out_of_turn"
CONTRADICTS = "gate_contradicts"


def check_verdicts(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check verdicts.

    1. The required objects were examined.
    2. The required rules were applied.
    3. The text agrees with the verdict.
    4. A verdict exists exactly where one is needed.
    5. A verdict follows every decision of people.
    """
    moments = replayed.moments
    for number, moment in enumerate(moments):
        before = moments[number - 1].payload if number else replayed.run.accepted
        after = moments[number + 1].payload if number + 1 < len(moments) else None
        if _lacks_verdict(moment, after):  # 5
            yield moment.contradiction(
                MISSING, layout.EVENTS, layout.EVENTS, "people decided, and the approval gate gave no verdict"
            )
        if not isinstance(moment.payload, e.GateJudged):
            continue
        if words := _out_of_place(moment.payload.report, before, after):  # 4
            yield moment.contradiction(TURN, gate_file(moment.gates, moment.payload.report), layout.EVENTS, words)
        report, path = moment.payload.report, gate_file(moment.gates, moment.payload.report)
        following = [each.payload for each in takewhile(_no_verdict, moments[number + 1 :])]
        decisions = _decisions(moments[:number], moment, report)
        held = before if isinstance(before, e.RosterHeld) else None
        expected = expected_evidence(moment.before, report, decisions, following, held)
        for words in faults_of_evidence(report, expected):  # 1
            yield moment.contradiction(EVIDENCE, path, layout.EVENTS, words)
        for rule in missing_rules(moment.before, report, decisions):  # 2
            words = f"the {report.gate} gate passed it, and does not name its rule {rule}"
            yield moment.contradiction(EVIDENCE, path, layout.EVENTS, words)
        made = () if moment.before.kind.examines else following
        composed = next((each for each in made if isinstance(each, e.CandidateComposed)), None)
        for words in chain(_check_words(report), faults_of_violations(report), faults_of_counts(report, composed)):  # 3
            yield moment.contradiction(CONTRADICTS, path, path, words)


def _out_of_place(report: GateReport, before: e.RunEvent, after: e.RunEvent | None) -> str:
    """Return why a verdict is misplaced: it must directly follow its subject and precede what it permits."""
    match report.gate, before:
        case "diff" | "citations", e.TaskFinished(result=result) if result.task_id == report.task_id:
            pass
        case "reviewer", e.ReviewReceived(report=judged) if judged.task_id == report.task_id:
            pass
        case "tests", e.TestsReceived() | e.StateEntered(state="S4"):
            pass
        case "approval", e.ApprovalDecided() | e.ApprovalByGrant() | e.ApprovalByRule() | e.ApprovalRequested():
            pass
        case "diff" | "citations" | "reviewer" | "tests" | "approval", _:
            return f"the {report.gate} gate judged what did not come right before"
    allowed = _LETS.get(report.gate)
    if report.verdict == "PASS" and allowed is not None and not isinstance(after, allowed):
        return f"the {report.gate} gate passed it, and nothing came of that"
    return ""


#: Events that directly follow a passing verdict, for gates where this is always the same.
_LETS: dict[GateName, tuple[type[e.RunEvent], ...]] = {
    "policy": (e.TaskDispatched, e.StateEntered, e.ContractCompiled),
    "plan": (e.TransferPlanned, e.PlanAccepted),
    "locks": (e.LocksTaken,),
    "integrated": (e.CandidateComposed,),
    "landing": (e.Landed,),
}


def _lacks_verdict(moment: Moment, after: e.RunEvent | None) -> bool:
    """Return whether an answer of people that closes a request is followed by neither a verdict nor another answer."""
    match moment.payload:
        case e.ApprovalDecided(verdict=verdict) if verdict in LEFT_OPEN:
            return False
        case e.ApprovalDecided():
            return not isinstance(after, e.GateJudged | e.ApprovalDecided)
        case e.ApprovalByGrant():
            return not isinstance(after, e.GateJudged | e.ApprovalRequested)
        case _:
            return False


def _no_verdict(moment: Moment) -> bool:
    return not isinstance(moment.payload, e.GateJudged)


def _decisions(earlier: Sequence[Moment], verdict: Moment, report: GateReport) -> list[Decision]:
    """Return the decisions and grants in the transition of a verdict.

    An answer that leaves a request open has no verdict of its own. It may be from the same millisecond, in an earlier
    transition.
    """
    found: list[Decision] = []
    for moment in reversed(earlier):
        if moment.record.ts != verdict.record.ts:
            break
        if isinstance(moment.payload, e.ApprovalDecided | e.ApprovalByGrant):
            found.append(moment.payload)
        elif not isinstance(moment.payload, e.ApprovalRequested | e.ApprovalByRule):
            break
    named = sum(seen.name.startswith(decided_request("")) for seen in report.evidence)
    while len(found) > named and isinstance(found[-1], e.ApprovalDecided) and found[-1].verdict in LEFT_OPEN:
        found.pop()
    return found


def _check_words(report: GateReport) -> Iterator[str]:
    """Check the text: a passing verdict states so first and has no reason family; a refusal starts with its first violation."""
    if report.verdict == "PASS":
        if report.summary != "passed" and not report.summary.startswith("passed; "):
            yield f"the verdict is PASS, and its summary is {report.summary[:80]!r}"
        if report.family is not None:
            yield f"the verdict is PASS, and it names the family {report.family} of reasons"
    elif report.violations:
        first = report.violations[0]
        words = f"{first.path}: {first.detail}" if first.path else first.detail
        if not report.summary.startswith(words):
            yield f"the verdict is FAIL because of {words[:80]!r}, and its summary is {report.summary[:80]!r}"
