"""Findings and scores that acceptance commands report: limits on new findings, and the lowest score. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gatewright.contracts.reports import AuditFinding, AuditResult, TestProof
from gatewright.rules.broken import Broken
from gatewright.rules.reports.replays import RULE
from gatewright.rules.reports.tests import Ordered

MISSING: Final = "audit_missing"
NEW_FINDINGS: Final = "audit_findings_new"
LOW_SCORE: Final = "audit_score_too_low"
#: Codes of the rules here.
CODES: Final = frozenset({MISSING, NEW_FINDINGS, LOW_SCORE})
#: Findings in a summary.
_QUOTED: Final = 3


def broken_by_audits(ordered: Sequence[Ordered]) -> Iterator[Broken]:
    """Yield each audit that has no usable result, too low a score, or more new findings than allowed, of these each one.

    A command that need not pass is judged too: many tools end with a failure if they find anything.
    """
    for test, command in ((one.test, one.final) for one in ordered):
        required = test.audit
        if required is None:
            continue
        found = command.proof.audit if command.proof is not None else None
        if found is None or found.fault:
            words = audit_in_words(found) if found is not None else "the test runner recorded no audit"
            yield Broken(MISSING, RULE, f"{test.name}: {words}")
        elif required.min_score is not None and (found.score is None or found.score < required.min_score):
            yield Broken(LOW_SCORE, RULE, f"{test.name}: {audit_in_words(found)}; {required.min_score:g} required")
        elif found.new_count > required.max_new:
            yield Broken(NEW_FINDINGS, RULE, f"{test.name}: {_counts_in_words(found)}; {required.max_new} new allowed")
            for each in found.new:
                yield Broken(NEW_FINDINGS, RULE, _at_line(each), each.path.encode() or None)


def audit_in_words(found: AuditResult) -> str:
    """Return an audit in one line for people."""
    if found.fault:
        return f"audit unknown: {found.file}: {found.fault}"
    if found.score is not None:
        return f"audit: score {found.score:g}"
    listed = "; ".join(finding_in_words(each) for each in found.new[:_QUOTED])
    return _counts_in_words(found) + (f": {listed}" if listed else "")


def finding_in_words(found: AuditFinding) -> str:
    """Return a finding as tools print it: file, line, rule and message."""
    place = found.path + (f":{found.line}" if found.line else "")
    return f"{place}: {_rule_and_message(found)}" if found.path else _rule_and_message(found)


def _at_line(found: AuditFinding) -> str:
    return f"line {found.line}: {_rule_and_message(found)}" if found.line else _rule_and_message(found)


def _rule_and_message(found: AuditFinding) -> str:
    return f"{found.rule} {found.message}".strip()


def _counts_in_words(found: AuditResult) -> str:
    if not found.findings:
        return "audit: no findings"
    before = f", {found.findings_before} on the baseline" if found.findings_before is not None else ""
    return f"audit: {found.findings} finding{'' if found.findings == 1 else 's'}{before}, {found.new_count} new"


def contradictions_of_audit(proof: TestProof) -> Iterator[str]:
    """Yield why a recorded audit is impossible."""
    found = proof.audit
    if found is None or found.fault:
        return
    if found.new_count > found.findings or len(found.new) > found.new_count:
        yield f"{found.new_count} of {found.findings} findings are new, and {len(found.new)} are listed"
    if found.findings and (found.findings_before is None or found.score is not None):
        yield "an audit has findings, and was not compared with the baseline"
    if found.findings - found.new_count > (found.findings_before or 0):
        yield "more findings are called old than the baseline has"
