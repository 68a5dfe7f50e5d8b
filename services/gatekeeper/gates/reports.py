"""The reviewer gate and the tests gate: a role's report counts only for the very tree that was composed, and only in full."""

from __future__ import annotations

from gatewright.contracts import ReviewReport, TaskContract, TestReport
from gatewright.errors import CommandRefusedError
from gatewright.ledger.run import Run
from gatewright.sandbox.argv import parse_command
from services.gatekeeper.gates.judgement import Judgement


def judge_review(report: ReviewReport, run: Run, found: Judgement) -> None:
    """1. the right tree  2. an independent reviewer  3. it passed the candidate.

    That it wrote nothing (``produced_diff`` false) is part of the schema: a report that says otherwise is never decoded.
    """
    _tree(report.tree, run, "reviewer_wrong_tree", found)  # 1
    implementers = {task.result.producer.agent_id for task in run.workers() if task.result is not None}
    if report.reviewer.role != "REVIEWER" or report.reviewer.agent_id in implementers:  # 2
        found.violate("reviewer_not_independent", "reviewer_gate", f"{report.reviewer.agent_id} may not review this")
    blocking = [finding for finding in report.findings if finding.blocking]
    for finding in blocking:  # 3
        path = finding.path.encode() if finding.path else None
        found.violate("review_failed", finding.code, finding.message, path)
    if not blocking and (report.verdict != "PASS" or not report.scope_check.passed):
        found.violate("review_failed", "reviewer_gate", f"{report.verdict}: {report.summary}")


def judge_tests(report: TestReport, run: Run, contract: TaskContract, found: Judgement) -> None:
    """1. it could be run at all  2. on the right tree  3. exactly the contract's commands  4. exit codes, not words, decide."""
    if report.status == "ERROR":  # 1
        code, _, words = (report.failure or "").partition(":")
        found.violate(code if code.isidentifier() else "tests_not_run", "tests_gate", words.strip() or "the runner failed")
        return
    _tree(report.tree, run, "tests_wrong_tree", found)  # 2
    ordered = []
    for test in contract.acceptance_tests:
        try:
            ordered.append((test.name, parse_command(test.cmd), test.must_pass))
        except CommandRefusedError as error:
            found.violate(error.reason, "tests_gate", error.message)
    ran = [(command.name, command.cmd_argv, command.must_pass) for command in report.commands]
    if ran != ordered:  # 3
        found.violate("tests_incomplete", "tests_gate", "the commands that ran are not those of the contract")
    for command in report.commands:  # 4
        found.saw(f"{command.name}.stdout", command.stdout)
        if command.must_pass and (command.exit_code != 0 or command.timed_out):
            words = "timed out" if command.timed_out else f"exit code {command.exit_code}"
            found.violate("tests_failed", "acceptance_tests", f"{command.name}: {words}")
    if not any(must_pass for _, _, must_pass in ordered):
        found.violate("tests_not_run", "tests_gate", "no acceptance test must pass, so nothing is proved")
    if report.status != "PASS" and found.clean:
        found.violate("tests_failed", "tests_gate", f"the runner reports {report.status}")


def _tree(reported: str | None, run: Run, code: str, found: Judgement) -> None:
    candidate = run.candidate.tree if run.candidate is not None else ""
    found.saw("candidate_tree", candidate)
    if not candidate or reported != candidate:
        found.violate(code, "same_tree", f"the report is about tree {reported}, the candidate is {candidate}")
