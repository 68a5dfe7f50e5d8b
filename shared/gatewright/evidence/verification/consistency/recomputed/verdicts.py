"""Every verdict names what the gate must have looked at and the rules that it must have applied, and says what it found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from gatewright.contracts import GateReport
from gatewright.contracts.people.approvals import LEFT_OPEN
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling, gate_file
from gatewright.ledger import events as e
from gatewright.rules.gate_evidence import (
    Decision,
    decided_request,
    expected_evidence,
    faults_of_evidence,
    faults_of_violations,
    missing_rules,
)

EVIDENCE = "gate_evidence_missing"
CONTRADICTS = "gate_contradicts"


def check_verdicts(telling: Telling) -> Iterator[Contradiction]:
    """1. what the gate must have looked at  2. the rules that it must have applied  3. words that agree with the verdict."""
    moments = telling.moments
    for number, moment in enumerate(moments):
        if not isinstance(moment.payload, e.GateJudged):
            continue
        report, path = moment.payload.report, gate_file(moment.gates, moment.payload.report)
        following = [each.payload for each in takewhile(_no_verdict, moments[number + 1 :])]
        decisions = _decisions(moments[:number], moment, report)
        expected = expected_evidence(moment.before, report, decisions, following)
        for words in faults_of_evidence(report, expected):  # 1
            yield moment.says(EVIDENCE, path, layout.EVENTS, words)
        for rule in missing_rules(moment.before, report, decisions):  # 2
            words = f"the {report.gate} gate passed it, and does not name its rule {rule}"
            yield moment.says(EVIDENCE, path, layout.EVENTS, words)
        broken = faults_of_violations(report) if moment.before.accepted.recording > 1 else ()
        for words in (*_words(report), *broken):  # 3
            yield moment.says(CONTRADICTS, path, path, words)


def _no_verdict(moment: Moment) -> bool:
    return not isinstance(moment.payload, e.GateJudged)


def _decisions(earlier: Sequence[Moment], verdict: Moment, report: GateReport) -> list[Decision]:
    """What people had said, or had said in advance, in the transition of a verdict.

    What leaves a request open has no verdict of its own. It may have come in the same millisecond, in a transition before.
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


def _words(report: GateReport) -> Iterator[str]:
    """A verdict that passes says so first, and has no family of reasons; one that refuses begins with its first violation."""
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
