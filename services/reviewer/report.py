"""The review report about findings. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import ReviewReport, TaskContract
from gatewright.contracts.reports import Finding, ScopeCheck
from gatewright.contracts.vocabulary import Agent
from gatewright.services.reviewer.checks import CHECKS
from gatewright.services.reviewer.checks.paths import OUT_OF_SCOPE


def review_report(
    task: TaskContract,
    reviewer: Agent,
    reviewed_at: str,
    *,
    tree: str | None,
    findings: Sequence[Finding],
    blocked: Finding | None,
    evidence: Sequence[str],
) -> ReviewReport:
    """BLOCKED for ``blocked``, FAIL for a blocking finding, else PASS. ``tree`` is the candidate that was looked at."""
    outside = tuple(finding.path or "" for finding in findings if finding.code == OUT_OF_SCOPE)
    seen = (*evidence, f"tree {tree}", f"checks {', '.join(CHECKS)}") if tree else tuple(evidence)
    return ReviewReport(
        run_id=task.log_refs.run_id,
        task_id=task.task_id,
        reviewer=reviewer,
        reviewed_at=reviewed_at,
        verdict="BLOCKED" if blocked else "FAIL" if any(finding.blocking for finding in findings) else "PASS",
        summary=_summary([blocked] if blocked else findings),
        scope_check=ScopeCheck(passed=tree is not None and not outside, violations=outside),
        evidence=seen,
        produced_diff=False,
        tree=tree,
        findings=(blocked,) if blocked else tuple(findings),
    )


def _summary(findings: Sequence[Finding]) -> str:
    blocking = [finding for finding in findings if finding.blocking]
    if not blocking:
        return f"nothing blocks it; {len(findings)} remark(s)" if findings else "nothing was found"
    first = blocking[0]
    place = ":".join(str(part) for part in (first.path, first.line) if part is not None)
    more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
    return f"{first.code}: {place + ' ' if place else ''}{first.message}{more}"
