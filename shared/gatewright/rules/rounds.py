"""How often a run may turn to fixing, and for which reasons; what the next round is for, and when a person takes over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gatewright.contracts import ApprovalRequest, GateReport, ReviewReport, TaskContract, TestReport
from gatewright.contracts.reports import MOST_VIOLATIONS
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.run.state import Run, RunTask
from gatewright.worker_role import answers, ways

#: Failed gates that another round of fixing may cure (specification 7: blocking review or failed tests).
CURABLE = frozenset({"hidden_tests_failed", "review_failed", "tests_failed"})
#: Violations of the diff gate that the maker can take back. None of them is a secret, or an attempt to get round a gate.
REPAIRABLE: Final = frozenset(
    {"diff_too_large", "executable_refused", "file_too_large", "mode_change_refused", "path_out_of_scope", "path_protected"}
)
#: What an agent or a model has failed at so often, one time after the other, is for a person.
MOST_FAILURES: Final = 3
#: The end of a run that failed so often.
ESCALATED: Final = "escalated"
#: The one thing that a round of fixing is for, by who refused the round before: the diff gate, the reviewer, the tests, people.
DIFF_OBJECTIVE: Final = "Bring the change back within the contract."
REVIEW_OBJECTIVE: Final = "Cure what the reviewer found."
TESTS_OBJECTIVE: Final = "Make the acceptance tests pass."
PEOPLE_OBJECTIVE: Final = "Cure what the people found who refused the change."


def curable(run: Run) -> Iterator[tuple[RunTask, ReviewReport | TestReport]]:
    """Of a run none of whose candidates passed: the worker tasks that a further round may cure, each with what was found."""
    for task in run.workers():
        state = run.candidates.get(task.candidate)
        evidence = (state.tests or state.review) if state is not None else None
        allowed = most_attempts(task.contract) if task.contract is not None else 0
        if state is not None and state.failure in CURABLE and evidence is not None and run.attempt < allowed:
            yield task, evidence


def most_attempts(contract: TaskContract) -> int:
    """How many attempts there may be: as the contract allows, and as the executor has answers.

    One that is asked anew has an answer each time; it is asked no oftener than ``MOST_FAILURES``, whatever the contract allows.
    Of a contract with candidates: the most that one of them may have.
    """
    allowed = contract.timeout_retry.max_retries + 1
    tries = (
        MOST_FAILURES if EXECUTOR_KINDS[executor.kind].asked_anew else len(answers(executor)) for executor in ways(contract)
    )
    return min(allowed, max(tries, default=0))


def may_repair(run: Run) -> bool:
    """Whether the run's change has one maker, who can be asked to take back what the diff gate refuses.

    With several shards or candidates the refusal stands: the others have done nothing wrong.
    """
    contract = run.contract
    if contract is None or contract.executor is None or contract.candidates:
        return False
    return EXECUTOR_KINDS[contract.executor.kind].asked_anew and len(run.workers()) == 1


def repairable(run: Run, report: GateReport) -> bool:
    """Whether the maker of the run's one change is asked to take back what this report of the diff gate refuses.

    Only where every violation is of those that can be taken back, and all of them are listed.
    """
    if not may_repair(run) or len(report.violations) >= MOST_VIOLATIONS:
        return False
    codes = {each.code for each in report.violations}
    return report.gate == "diff" and report.verdict == "FAIL" and bool(codes) and codes <= REPAIRABLE


def escalates(contract: TaskContract, attempt: int, code: str) -> bool:
    """Whether a refusal of ``attempt`` because of ``code`` hands the run to a person, in place of one more round."""
    asked = contract.executor is not None and EXECUTOR_KINDS[contract.executor.kind].asked_anew
    return asked and code in CURABLE and attempt >= MOST_FAILURES


def candidates_escalate(run: Run) -> bool:
    """Whether a run whose candidates are all out is for a person: one of them was refused as often as it may be."""
    tasks = ((task.contract, run.candidates.get(task.candidate)) for task in run.workers())
    return any(
        contract is not None and state is not None and escalates(contract, run.attempt, state.failure)
        for contract, state in tasks
    )


def why_unrepaired(run: Run) -> str:
    """Why a change that people refuse is not sent back to who made it, in words; empty when it is."""
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
    """Whether a refusal of this request sends the change back, in the place of what a refusal does else."""
    rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
    return rule is not None and rule.on_reject == "repair" and request.stage == "candidate" and not why_unrepaired(run)


def handed_over(run: Run) -> bool:
    """Whether the refusal that stands is the last of as many as one that is asked anew may have without a person."""
    contract, refusal = run.contract, run.refusal
    return contract is not None and refusal is not None and escalates(contract, run.attempt, refusal.code)


def granted_rounds(run: Run) -> int:
    """How many further rounds people have given the run, beyond those of its contract: one with each yes."""
    return sum(asked.status == "approved" and asked.request.stage == "round" for asked in run.approvals.values())


def refused_by(run: Run) -> GateReport | ReviewReport | TestReport | None:
    """The report that the refusal which stands was about; of the diff gate, its own."""
    if run.refusal is None:
        return None
    if run.refusal.gate == "diff":
        return run.refusal if repairable(run, run.refusal) else None
    return run.review if run.refusal.gate == "reviewer" else run.tests
