"""The gatekeeper's own reports on an ended run: its result, and placeholders for reviews and tests that did not happen.

A bundle always has a review report and a test report (specification 5.2: removals are not allowed). A placeholder states that
nothing took place and can never pass. Pure: everything comes from the run's events.
"""

from __future__ import annotations

from collections.abc import Iterable

from gatewright.contracts import EvidenceBundle, GateReport, ReviewReport, TaskResult, TestReport
from gatewright.contracts.reports import (
    GateName,
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
    TestSummary,
    Violation,
)
from gatewright.contracts.vocabulary import Agent, Artifact
from gatewright.evidence.layout import digest_of
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.names import name_list
from gatewright.research.findings import FINDINGS

#: Author of the gatekeeper's own reports. The inherited role names have no gatekeeper; OPS is the nearest.
GATEKEEPER = Agent(role="OPS", agent_id="gatekeeper")
#: Which verdicts make up each outcome of a task result.
_OUTCOMES: dict[str, frozenset[GateName]] = {
    "diff_gate": frozenset({"diff", "integrated"}),
    "policy_gate": frozenset({"schema", "policy", "plan"}),
    "review_gate": frozenset({"reviewer"}),
    "tests_gate": frozenset({"tests"}),
}


def failure_reason(history: RunHistory) -> str | None:
    """Return ``code: message`` of a run that did not succeed; for an aborted one it begins with ``aborted``."""
    failure = history.run.failure
    if history.run.status == "SUCCESS":
        return None
    words = f"{failure.code}: {failure.message}" if failure else "unknown: no reason was recorded"
    return f"aborted: {words}" if history.run.status == "ABORTED" and not words.startswith("aborted") else words


def why_not(history: RunHistory) -> str:
    """Return as text why a part of a complete run is missing."""
    if history.run.status == "SUCCESS" and not history.run.kind.lands:
        return f"a {history.run.kind.name} run has none"
    return f"the run ended as {history.run.status} ({failure_reason(history) or 'no failure'})"


def outcomes(gates: Iterable[GateReport]) -> GateOutcomes:
    """Return the outcomes of the gates. An outcome passes when it was judged and all its verdicts are PASS (fail closed)."""
    judged = tuple(gates)
    return GateOutcomes(**{name: _outcome(gate for gate in judged if gate.gate in kinds) for name, kinds in _OUTCOMES.items()})


def final_result(history: RunHistory, names: bytes) -> TaskResult:
    """Return ``reports/task_result.json`` for the whole run.

    Args:
        history: the ended run.
        names: the changed paths, each terminated by a NUL.
    """
    run = history.run
    candidate, landed = run.candidate, run.landed
    head = (landed.commit if landed else "") or (candidate.tree if candidate else "")
    patch = candidate.patch if candidate else ""
    digest = digest_of(patch)
    return TaskResult(
        run_id=run.run_id,
        task_id=run.contract.task_id if run.contract else run.run_id,
        producer=GATEKEEPER,
        status="SUCCESS" if run.status == "SUCCESS" else "BLOCKED" if run.status == "ABORTED" else "FAILED",
        started_at=run.created_at,
        finished_at=run.finished_at,
        summary=_summary(history),
        artifacts=(Artifact(name="candidate.patch", uri=patch, sha256=digest),) if digest else (),
        git=GitOutcome(
            baseline_ref=run.accepted.baseline_commit,
            head_ref=head,
            changed_files=tuple(name_list(names).decode("ascii").splitlines()),
            patch=patch,
        ),
        gates=outcomes(history.decisive),
        next_steps=_next_steps(history),
        attempt=run.attempt,
        failure=failure_reason(history),
    )


def review_report(history: RunHistory) -> ReviewReport:
    """Return the reviewer's report, or a placeholder that states that there was none."""
    run = history.run
    return run.review or ReviewReport(
        run_id=run.run_id,
        reviewer=GATEKEEPER,
        reviewed_at=run.finished_at,
        verdict="BLOCKED",
        summary=f"No review took place: {why_not(history)}.",
        scope_check=ScopeCheck(passed=False, violations=("not_evaluated",)),
        evidence=(),
    )


def test_report(history: RunHistory) -> TestReport:
    """Return the test runner's report, or a placeholder that states that nothing was run."""
    run = history.run
    return run.tests or TestReport(
        run_id=run.run_id,
        task_id=run.contract.task_id if run.contract else run.run_id,
        runner=GATEKEEPER,
        started_at=run.finished_at,
        finished_at=run.finished_at,
        status="SKIPPED",
        commands=(),
        artifacts=(),
        summary=TestSummary(passed=0, failed=0, skipped=0),
        failure=f"tests_not_run: {why_not(history)}",
    )


def findings_uri(history: RunHistory) -> str:
    """Return the artifact with a searcher's findings; empty without one."""
    artifacts = [each for result in history.results.values() for each in result.artifacts]
    return next((each.uri for each in artifacts if each.name == FINDINGS), "") if history.run.kind.result == FINDINGS else ""


def findings_bundle(history: RunHistory) -> EvidenceBundle:
    """Return the findings of a run without a searcher: none, and the file states that."""
    run = history.run
    return EvidenceBundle(
        bundle_id=run.run_id,
        created_at=run.finished_at,
        requested_by=run.accepted.requested_by or "unknown",
        query="",
        sources=(),
        claims=(),
        limitations=("No search was part of this run.",),
    )


def _outcome(gates: Iterable[GateReport]) -> GateOutcome:
    judged = tuple(gates)
    violations = tuple(text for gate in judged if gate.verdict != "PASS" for text in _violations(gate))
    if not judged:
        violations = ("not_evaluated",)
    return GateOutcome(passed=not violations, violations=violations)


def _violations(gate: GateReport) -> tuple[str, ...]:
    return tuple(_violation_words(violation) for violation in gate.violations) or (f"{gate.code}: {gate.summary}",)


def _violation_words(violation: Violation) -> str:
    return ": ".join(part for part in (violation.code, violation.path or "", violation.detail) if part)


def _summary(history: RunHistory) -> str:
    run = history.run
    if run.status != "SUCCESS":
        return f"The run ended as {run.status}: {failure_reason(history)}"
    if not run.kind.lands:
        return f"{run.kind.words.capitalize()}."
    if run.landed and run.landed.ref:
        return f"Tree {run.landed.tree} passed every gate and is on {run.landed.ref} as {run.landed.commit}."
    return f"Tree {run.candidate.tree if run.candidate else ''} passed every gate; nothing was to be landed."


def _next_steps(history: RunHistory) -> NextSteps:
    run = history.run
    if run.status == "ABORTED":
        return NextSteps(suggested_action="submit_again", notes="The run was stopped on request.")
    if run.status == "FAILED":
        return NextSteps(suggested_action="correct_and_submit_again", notes=failure_reason(history) or "")
    if run.landed and run.landed.mode == "branch":
        return NextSteps(suggested_action="merge", notes=run.landed.ref)
    return NextSteps(suggested_action="none", notes="")
