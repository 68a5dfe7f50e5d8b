"""Validity of a review: of the exact candidate, by a reviewer that made no part of it, and passed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gatewright.contracts import ReviewReport
from gatewright.rules.broken import Broken
from gatewright.run.state import RunTask

#: Codes of the rules here and of the tree's; the gate uses others too.
CODES = frozenset({"reviewer_wrong_tree", "reviewer_not_independent"})


def not_independent(report: ReviewReport, makers: Iterable[RunTask]) -> Iterator[Broken]:
    """Yield faults of independence: another role, or a reviewer that worked on any candidate.

    ``makers`` are the run's worker tasks, of every candidate and round.
    """
    tasks = tuple(makers)
    implementers = {task.result.producer.agent_id for task in tasks if task.result is not None}
    implementers |= {task.contract.assigned_agent.agent_id for task in tasks if task.contract is not None}
    if report.reviewer.role != "REVIEWER" or report.reviewer.agent_id in implementers:
        yield Broken("reviewer_not_independent", "reviewer_gate", f"{report.reviewer.agent_id} may not review this")


def not_passed(report: ReviewReport) -> Iterator[Broken]:
    """Yield every blocking finding; or the verdict, if it is negative without one."""
    blocking = [finding for finding in report.findings if finding.blocking]
    for finding in blocking:
        yield Broken("review_failed", finding.code, finding.message, finding.path.encode() if finding.path else None)
    if not blocking and (report.verdict != "PASS" or not report.scope_check.passed):
        yield Broken("review_failed", "reviewer_gate", f"{report.verdict}: {report.summary}")
