"""The outcome of a test of a queue. Only a full report is green: every ordered command ran on exactly this tree and passed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gatewright.budgets import command_seconds
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.queue_policy import Outcome
from gatewright.contracts.queue_receipt import OrderedCommand, PositionReport, ReportPart
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.profiles.choice import image_of
from gatewright.queue.commands import Test
from gatewright.rules.reports.tests import contradictions, match_ordered, passed
from gatewright.sandbox.argv import parse_command


def report_part(runs: tuple[str, ...], contract: TaskContract, report: TestReport) -> ReportPart:
    """Return the part with the commands that the task ``contract`` ordered.

    Raises:
        CommandRefusedError: a command of the contract is no plain argv.
    """
    commands = tuple(
        OrderedCommand(name=each.name, argv=parse_command(each.cmd), must_pass=each.must_pass, may_rerun=each.may_rerun)
        for each in contract.acceptance_tests
    )
    seconds, image = command_seconds(contract), image_of(contract)
    return ReportPart(runs=runs, commands=commands, timeout_sec=seconds, report=report, image=image)


def conclude(repository: str, branch: str, test: Test, parts: Sequence[ReportPart]) -> PositionReport:
    """Return the report of ``test``, whose parts have all answered.

    A test whose parts leave out a standing command, or a run, has the outcome ``infrastructure``.
    """
    outcome, failed = outcome_of(test.tree, parts)
    runs = {run_id for part in parts for run_id in part.runs}
    standing = [command.argv for part in parts if not part.runs for command in part.commands if command.must_pass]
    if runs != set(test.runs) or standing != list(test.standing_commands):
        outcome, failed = "infrastructure", ()
    return PositionReport(
        repository=repository,
        branch=branch,
        number=test.number,
        tree=test.tree,
        policy_sha256=test.policy_sha256,
        outcome=outcome,
        failed=failed,
        parts=tuple(parts),
    )


def outcome_of(tree: str, parts: Sequence[ReportPart]) -> tuple[Outcome, tuple[str, ...]]:
    """Return the outcome of the parts of a test, and the sorted names of what failed.

    1. A part that proves nothing about ``tree`` gives ``infrastructure``, without names.
    2. A required command that reached its time limit gives ``timed_out``.
    3. Any other required command that did not pass gives ``failed``.
    """
    failed: list[TestCommand] = []
    for part in parts:
        found = _failed_commands(part, tree)
        if found is None:
            return "infrastructure", ()  # 1
        failed += found
    names = tuple(sorted({name for command in failed for name in _failed_names(command)}))
    if any(command.timed_out for command in failed):
        return "timed_out", names  # 2
    return ("failed" if failed else "passed"), names  # 3


def _failed_commands(part: ReportPart, tree: str) -> list[TestCommand] | None:
    """Return the required commands that did not pass; None where the answer is no full report of them on ``tree``."""
    report = part.report
    if part.image != (report.surroundings.image if report.surroundings is not None else None):
        return None
    if report.status not in {"PASS", "FAIL"} or report.tree != tree or report.runner.role != "TEST_RUNNER":
        return None
    tests = (
        (AcceptanceTest(name=each.name, cmd="", must_pass=each.must_pass, may_rerun=each.may_rerun), each.argv)
        for each in part.commands
    )
    ordered, misfit = match_ordered(report, tests, part.timeout_sec)
    required = [one.final for one in ordered if one.test.must_pass]
    failed = [command for command in required if not passed(command)]
    if misfit is not None or not required or any(command.stopped for command in failed):
        return None
    return None if any(contradictions(report, ordered, bool(failed))) else failed


def _failed_names(command: TestCommand) -> Iterator[str]:
    """Yield the failed tests where the proof names all of them; else the command."""
    proof = command.proof
    names = proof.failed if proof is not None else ()
    complete = proof is not None and proof.complete and proof.counts is not None and proof.counts.failed == len(names)
    yield from names if names and complete else (command.name,)
