"""Fix rounds: maximum number, curable reasons, objective of the next round, and escalation to a person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gatewright.contracts import ApprovalRequest, GateReport, ReviewReport, TaskContract, TestReport
from gatewright.contracts.reports import MOST_VIOLATIONS
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.state import Run, RunTask
from gatewright.worker_role import answers, ways

#: Failed gates that another fix round may cure (specification 7: blocking review or failed tests).
CURABLE = frozenset({"hidden_tests_failed", "review_failed", "tests_failed"})
#: Violations of the diff gate that the maker can revert. None is a secret, or an attempt to bypass a gate.
REPAIRABLE: Final = frozenset(
    {"diff_too_large", "executable_refused", "file_too_large", "mode_change_refused", "path_out_of_scope", "path_protected"}
)
#: Number of consecutive failures of an agent or model after which a person takes over.
MOST_FAILURES: Final = 3
#: Reason code of a run that reached that number.
ESCALATED: Final = "escalated"
#: Objective of a fix round, by the source of the refusal: the diff gate, the reviewer, the tests, people.
DIFF_OBJECTIVE: Final = "Bring the change back within the contract."
REVIEW_OBJECTIVE: Final = "Cure what the reviewer found."
TESTS_OBJECTIVE: Final = "Make the acceptance tests pass."
PEOPLE_OBJECTIVE: Final = "Cure what the people found who refused the change."


def curable(run: Run) -> Iterator[tuple[RunTask, ReviewReport | TestReport]]:
    """Yield the curable worker tasks of a run without a passing candidate, each with its findings."""
    for task in run.workers():
        state = run.candidates.get(task.candidate)
        evidence = (state.tests or state.review) if state is not None else None
        allowed = most_attempts(task.contract) if task.contract is not None else 0
        if state is not None and state.failure in CURABLE and evidence is not None and run.attempt < allowed:
            yield task, evidence


def most_attempts(contract: TaskContract) -> int:
    """Return the maximum number of attempts: by the contract, and by the answers that the executor has.

    An executor that is asked again has an answer each time, but at most ``MOST_FAILURES`` times. With candidates: the maximum
    of any candidate.
    """
    allowed = contract.timeout_retry.max_retries + 1
    tries = (
        MOST_FAILURES if EXECUTOR_KINDS[executor.kind].asked_anew else len(answers(executor)) for executor in ways(contract)
    )
    return min(allowed, max(tries, default=0))


def may_repair(run: Run) -> bool:
    """Return whether the change has a single maker, who can revert what the diff gate refuses.

    With several shards or candidates the refusal is final: the others did nothing wrong.
    """
    contract = run.contract
    if contract is None or contract.executor is None or contract.candidates:
        return False
    return EXECUTOR_KINDS[contract.executor.kind].asked_anew and len(run.workers()) == 1


def repairable(run: Run, report: GateReport) -> bool:
    """Return whether the single maker should revert what this diff gate report refuses.

    Requires that every violation is repairable, and that all are listed.
    """
    if not may_repair(run) or len(report.violations) >= MOST_VIOLATIONS:
        return False
    codes = {each.code for each in report.violations}
    return report.gate == "diff" and report.verdict == "FAIL" and bool(codes) and codes <= REPAIRABLE


def escalates(contract: TaskContract, attempt: int, code: str) -> bool:
    """Return whether a refusal of ``attempt`` with ``code`` escalates to a person instead of starting another round."""
    asked = contract.executor is not None and EXECUTOR_KINDS[contract.executor.kind].asked_anew
    return asked and code in CURABLE and attempt >= MOST_FAILURES


def candidates_escalate(run: Run) -> bool:
    """Return whether a run without a remaining candidate escalates: one of them reached the maximum of refusals."""
    tasks = ((task.contract, run.candidates.get(task.candidate)) for task in run.workers())
    return any(
        contract is not None and state is not None and escalates(contract, run.attempt, state.failure)
        for contract, state in tasks
    )


def why_unrepaired(run: Run) -> str:
    """Return as text why a rejected change is not sent back to its maker; empty when it is."""
    contract = run.contract
    if contract is None or contract.candidates:
        return "of several candidates none is made anew"
    executor = contract.executor
    if executor is None or not EXECUTOR_KINDS[executor.kind].asked_anew:
        kind = executor.kind if executor is not None else "recorded reply"
        return f"a {kind} makes the change, and cannot be asked to repair it"
    most = most_attempts(contract)
    return "" if run.attempt < most else f"no round is left of {most}"


def sends_back(run: Run, request: ApprovalRequest) -> bool:
    """Return whether a rejection of this request sends the change back instead of its usual effect."""
    rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
    return rule is not None and rule.on_reject == "repair" and request.stage == "candidate" and not why_unrepaired(run)


def handed_over(run: Run) -> bool:
    """Return whether the current refusal reached the maximum without a person."""
    contract, refusal = run.contract, run.refusal
    return contract is not None and refusal is not None and escalates(contract, run.attempt, refusal.code)


def granted_rounds(run: Run) -> int:
    """Return the number of additional rounds that people approved, one per approval."""
    return sum(asked.status == "approved" and asked.request.stage == "round" for asked in run.approvals.values())


def refused_by(run: Run) -> GateReport | ReviewReport | TestReport | None:
    """Return the report behind the current refusal; for the diff gate, its own."""
    if run.refusal is None:
        return None
    if run.refusal.gate == "diff":
        return run.refusal if repairable(run, run.refusal) else None
    return run.review if run.refusal.gate == "reviewer" else run.tests
