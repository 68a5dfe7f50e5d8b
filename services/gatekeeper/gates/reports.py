"""The reviewer gate and the tests gate: a role's report counts only for the very tree that was composed, and only in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gatewright.contracts import ReviewReport, TaskContract, TestReport
from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import AcceptanceTest, Environment
from gatewright.environment_state import ADVICE, CHANGED
from gatewright.errors import CommandRefusedError
from gatewright.ledger.run import Run
from gatewright.patterns import TextPattern
from gatewright.sandbox.argv import parse_command
from gatewright.sandbox.programs import NOT_FOUND
from gatewright.task_inputs import command_seconds
from services.gatekeeper.gates.judgement import Judgement

#: The test runner's note of the candidate's own files that the commands edited.
WORKSPACE_CHANGES = "workspace_changes"

_URI = TextPattern(r"artifact:sha256:[0-9a-fA-F]{64}|data:[^\s\"']*,")


class Ordered(NamedTuple):
    """One acceptance test of the contract, and the runs of it that were reported: one, or two where the first failed."""

    test: AcceptanceTest
    runs: tuple[TestCommand, ...]

    @property
    def final(self) -> TestCommand:
        """The run that decides."""
        return self.runs[-1]

    @property
    def flaky(self) -> bool:
        return len(self.runs) > 1 and passed(self.final)


def passed(command: TestCommand) -> bool:
    """By its exit code alone; a command that was killed at a limit has not passed, whatever code it left."""
    return command.exit_code == 0 and not command.timed_out and not command.stopped


def judge_review(report: ReviewReport, run: Run, found: Judgement) -> None:
    """1. the right tree  2. an independent reviewer  3. that hands over nothing  4. it passed the candidate.

    ``produced_diff`` must be false by the schema: a report that says otherwise is never decoded. What lands is the candidate
    that the gatekeeper composed, so a reviewer has nowhere to put a change; one that points to other bytes tries to.
    """
    _tree(report.tree, run, "reviewer_wrong_tree", found)  # 1
    found.checked("reviewer_gate")
    implementers = {task.result.producer.agent_id for task in run.workers() if task.result is not None}
    implementers |= {task.contract.assigned_agent.agent_id for task in run.workers() if task.contract is not None}
    if report.reviewer.role != "REVIEWER" or report.reviewer.agent_id in implementers:  # 2
        found.violate("reviewer_not_independent", "reviewer_gate", f"{report.reviewer.agent_id} may not review this")
    found.checked("read_only")
    for uri in sorted(_handed_over(report) - _shown(run)):  # 3
        found.violate("reviewer_produced_diff", "read_only", f"the report points to {uri[:100]}, which it was not given")
    blocking = [finding for finding in report.findings if finding.blocking]
    for finding in blocking:  # 4
        path = finding.path.encode() if finding.path else None
        found.violate("review_failed", finding.code, finding.message, path)
    if not blocking and (report.verdict != "PASS" or not report.scope_check.passed):
        found.violate("review_failed", "reviewer_gate", f"{report.verdict}: {report.summary}")


def judge_tests(report: TestReport, run: Run, contract: TaskContract, found: Judgement) -> None:
    """Whether the acceptance commands proved the candidate.

    1. they could be run at all  2. on the right tree  3. exactly the contract's commands, in order, with their time limit
    4. again only where the contract allows it  5. exit codes, not words, decide  6. at least one must pass
    7. the report does not contradict itself  8. the environment is the one that the change was made with.
    """
    if report.status == "ERROR":  # 1
        code, _, words = (report.failure or "").partition(":")
        found.violate(code if code.isidentifier() else "tests_not_run", "tests_gate", words.strip() or "the runner failed")
        return
    _tree(report.tree, run, "tests_wrong_tree", found)  # 2
    found.checked("tests_gate")
    if report.runner.role != "TEST_RUNNER":
        found.violate("tests_not_run", "tests_gate", f"a {report.runner.role} does not run tests")
    ordered = _match(report, contract, found)  # 3, 4
    found.checked("acceptance_tests")
    for one in ordered:  # 5
        _note(one, found)
        if one.test.must_pass and not passed(one.final):
            found.violate(
                "tests_failed", "acceptance_tests", f"{one.test.name}: {how_it_ended(one.final, contract.environment)}"
            )
    if not any(test.must_pass for test in contract.acceptance_tests):  # 6
        found.violate("tests_not_run", "tests_gate", "no acceptance test must pass, so nothing is proved")
    if found.clean:  # 7
        _agrees(report, ordered, found)
    _same_environment(report, run, found)  # 8
    for artifact in report.artifacts:
        if artifact.name == WORKSPACE_CHANGES:
            found.saw(WORKSPACE_CHANGES, artifact.sha256)
            found.remark("commands edited files of the candidate, and these edits do not land")


def how_it_ended(command: TestCommand, environment: Environment | None = None) -> str:
    """Why a command did not pass, in words; ``environment`` is what it was to see beside the system."""
    if command.timed_out:
        return "timed out"
    if command.stopped:
        return f"killed at its limit of {command.stopped}"
    if command.exit_code == NOT_FOUND:
        where = f"in --env {environment.prefix}, nor in the system" if environment else "in the system, and no --env was given"
        return f"exit code {NOT_FOUND}: {command.cmd_argv[0]!r}, or a program that it starts, was not found {where}"
    return f"exit code {command.exit_code}"


def _match(report: TestReport, contract: TaskContract, found: Judgement) -> list[Ordered]:
    """The contract's tests with their runs; empty, with a violation, when the report is not about exactly these."""
    found.checked("rerun")
    seconds = command_seconds(contract)
    rest = list(report.commands)
    matched: list[Ordered] = []
    for test in contract.acceptance_tests:
        try:
            argv = parse_command(test.cmd)
        except CommandRefusedError as error:
            found.violate(error.reason, "tests_gate", error.message)
            return []
        runs = list(_runs(rest))
        if not runs or any(_identity(command) != (test.name, argv, test.must_pass) for command in runs):
            found.violate("tests_incomplete", "tests_gate", "the commands that ran are not those of the contract")
            return []
        if any(command.timeout_sec > seconds for command in runs):
            found.violate("tests_incomplete", "tests_gate", f"{test.name}: had more than the contract's {seconds:g} s")
            return []
        if len(runs) > 1 and (not test.may_rerun or passed(runs[0])):
            why = "passed at its first run" if test.may_rerun else "the contract does not allow it"
            found.violate("rerun_not_allowed", "rerun", f"{test.name} was run again: {why}")
            return []
        matched.append(Ordered(test, tuple(runs)))
    if rest:
        found.violate("tests_incomplete", "tests_gate", "commands ran that the contract does not have")
        return []
    return matched


def _runs(rest: list[TestCommand]) -> Iterator[TestCommand]:
    """Take the next command off ``rest``, and its second run when that comes right after it."""
    if rest and rest[0].run == 1:
        yield rest.pop(0)
        if rest and rest[0].run == 2:
            yield rest.pop(0)


def _identity(command: TestCommand) -> tuple[str, tuple[str, ...], bool]:
    return command.name, command.cmd_argv, command.must_pass


def _note(one: Ordered, found: Judgement) -> None:
    for command in one.runs:
        name = one.test.name if command.run == 1 else f"{one.test.name}.run{command.run}"
        found.saw(f"{name}.stdout", command.stdout)
        found.saw(f"{name}.exit", f"{command.exit_code} {command.stopped}".strip())
    if one.flaky:
        found.saw("flaky", one.test.name)
        found.remark(f"flaky: {one.test.name} passed when it was run again")


def _agrees(report: TestReport, ordered: list[Ordered], found: Judgement) -> None:
    good = sum(passed(one.final) for one in ordered)
    summary = TestSummary(passed=good, failed=len(ordered) - good, skipped=0)
    if report.status != "PASS":
        found.violate("tests_failed", "tests_gate", f"the runner reports {report.status}")
    if report.summary is not None and report.summary != summary:
        found.violate("report_contradicts", "tests_gate", "the summary does not count what the commands say")


def _same_environment(report: TestReport, run: Run, found: Judgement) -> None:
    """Only states of one place are compared: another host may have an environment of its own under the same path."""
    tested = report.surroundings.environment if report.surroundings is not None else None
    if tested is None:
        return
    found.saw("environment", tested.files_sha256)
    for task in run.workers():
        worked = task.result.surroundings if task.result is not None else None
        used = worked.environment if worked is not None else None
        if used is not None and used.place_sha256 == tested.place_sha256 and used.files_sha256 != tested.files_sha256:
            words = f"{tested.prefix} is not what it was when {task.task_id} used it; {ADVICE}"
            found.violate(CHANGED, "same_environment", words)
            return


def _handed_over(report: ReviewReport) -> set[str]:
    """Every artifact that a review points to, wherever in it."""
    words = [report.summary, *report.evidence, *report.scope_check.violations]
    words += [text for finding in report.findings for text in (finding.code, finding.message, finding.path or "")]
    return {uri for text in words for uri in _URI.findall(text)}


def _shown(run: Run) -> set[str]:
    """What the reviewer was given to look at."""
    uris = {run.candidate.patch, run.candidate.names} if run.candidate is not None else set()
    tasks = [task.contract for task in run.tasks.values() if task.role == "reviewer" and task.contract is not None]
    return uris | {artifact.uri for task in tasks for artifact in task.inputs.artifacts}


def _tree(reported: str | None, run: Run, code: str, found: Judgement) -> None:
    found.checked("same_tree")
    candidate = run.candidate.tree if run.candidate is not None else ""
    found.saw("candidate_tree", candidate)
    if not candidate or reported != candidate:
        found.violate(code, "same_tree", f"the report is about tree {reported}, the candidate is {candidate}")
