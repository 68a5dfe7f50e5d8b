"""Test reports: whether one proves a candidate with exactly the contract's commands, on that tree, decided by exit codes."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gatewright.budgets import command_seconds
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import AcceptanceTest, Environment
from gatewright.ecosystems.failure_classes import FailureClass, class_of
from gatewright.errors import CommandRefusedError
from gatewright.order_artifacts.hidden_acceptance import FAILED
from gatewright.profiles.choice import image_of
from gatewright.rules.broken import Broken
from gatewright.rules.reports.results import wrong_times
from gatewright.sandbox.argv import parse_command
from gatewright.sandbox.programs import NOT_FOUND

#: Codes of the rules here; a gate may use others too.
CODES = frozenset(
    {
        "tests_wrong_tree",
        "tests_wrong_image",
        "tests_failed",
        FAILED,
        "tests_incomplete",
        "rerun_not_allowed",
        "report_contradicts",
    }
)

#: Offset by which shells and bubblewrap report a signal as exit code.
_SIGNALLED = 128


class Ordered(NamedTuple):
    """One acceptance test of the contract, and its reported runs: one, or two when the first failed."""

    test: AcceptanceTest
    runs: tuple[TestCommand, ...]

    @property
    def final(self) -> TestCommand:
        """The deciding run."""
        return self.runs[-1]

    @property
    def flaky(self) -> bool:
        return len(self.runs) > 1 and passed(self.final)


def stored_by(command: TestCommand) -> tuple[str, ...]:
    """Return the URIs of the test runner's stored outputs of one command."""
    table = command.proof.table if command.proof is not None else ""
    return tuple(uri for uri in (command.stdout, command.stderr, table) if uri)


def passed(command: TestCommand) -> bool:
    """Return whether a command passed: by its exit code, and not when it was killed at a limit."""
    return command.exit_code == 0 and not command.timed_out and not command.stopped


def final_runs(done: Sequence[TestCommand]) -> tuple[TestCommand, ...]:
    """Return the run of each command that decides: the second where there is one, which comes right after the first."""
    return tuple(command for number, command in enumerate(done) if number + 1 == len(done) or done[number + 1].run == 1)


def failure_class(command: TestCommand) -> FailureClass:
    """Return what a command checks: ``lint``, ``typecheck``, ``build``, ``test``, or ``command`` if that is not known."""
    return class_of(command.cmd_argv, command.proof.framework if command.proof is not None else "")


def how_it_ended(command: TestCommand, missing: str | None = None) -> str:
    """Return the end of a command as text, with signals by name.

    Args:
        command: the command.
        missing: where the program was searched, in case none was found.
    """
    if command.timed_out:
        return f"was killed after {command.timeout_sec:g} s"
    if command.stopped:
        return f"was killed at its limit of {command.stopped}"
    if command.exit_code == NOT_FOUND and missing:
        return f"ended with {command.exit_code}: {missing}"
    number = -command.exit_code if command.exit_code < 0 else command.exit_code - _SIGNALLED
    if number > 0:
        try:
            return f"was ended by {signal.Signals(number).name} ({command.exit_code})"
        except ValueError:
            pass
    return f"ended with {command.exit_code}"


def _not_seen(command: TestCommand, environment: Environment | None) -> str:
    """Return where a program was searched on its host; ``environment`` is what commands see beside the system."""
    where = f"in --env {environment.prefixes}, nor in the system" if environment else "in the system, and no --env was given"
    return f"{command.cmd_argv[0]!r}, or a program that it starts, was not found {where}"


def wrong_tree(reported: str | None, candidate: str, code: str) -> Iterator[Broken]:
    """Yield a fault unless the report is about exactly the composed tree."""
    if not candidate or reported != candidate:
        yield Broken(code, "same_tree", f"the report is about tree {reported}, the candidate is {candidate}")


def broken_by_tests(report: TestReport, candidate: str, contract: TaskContract) -> tuple[Broken, ...]:
    """Return why the acceptance commands do not prove the tree ``candidate``; empty when they do.

    1. They could be run at all.
    2. On the right tree, in the contract's image if it has one.
    3. Exactly the contract's commands, in order, with their time limit.
    4. Repeated only where the contract allows it.
    5. Exit codes decide, not text.
    6. At least one must pass.
    7. Summary, status and times of the report are consistent.
    """
    if report.status == "ERROR":  # 1
        code, _, words = (report.failure or "").partition(":")
        return (Broken(code if code.isidentifier() else "tests_not_run", "tests_gate", words.strip() or "the runner failed"),)
    broken = list(wrong_tree(report.tree, candidate, "tests_wrong_tree"))  # 2
    seen = report.surroundings.image if report.surroundings is not None else None
    if seen != (image := image_of(contract)):
        words = f"the commands were to see {image or 'no image'}, and the report is about {seen or 'none'}"
        broken.append(Broken("tests_wrong_image", "tests_gate", words))
    if report.runner.role != "TEST_RUNNER":
        broken.append(Broken("tests_not_run", "tests_gate", f"a {report.runner.role} does not run tests"))
    ordered, misfit = match_commands(report, contract)  # 3, 4
    broken += [misfit] if misfit is not None else []
    for one in ordered:  # 5
        if one.test.must_pass and not passed(one.final):
            kind = failure_class(one.final)
            words = f"{one.test.name} {how_it_ended(one.final, _not_seen(one.final, contract.environment))}"
            words += f" ({kind})" if kind in {"lint", "typecheck", "build"} else ""
            broken.append(Broken(FAILED if one.test.hidden else "tests_failed", "acceptance_tests", words))
    if not any(test.must_pass for test in contract.acceptance_tests):  # 6
        broken.append(Broken("tests_not_run", "tests_gate", "no acceptance test must pass, so nothing is proved"))
    return (*broken, *contradictions(report, ordered, bool(broken)))  # 7


def match_commands(report: TestReport, contract: TaskContract) -> tuple[tuple[Ordered, ...], Broken | None]:
    """Return the contract's tests with their runs, or the fault when the report is not about exactly these."""
    tests = ((test, parse_command(test.cmd)) for test in contract.acceptance_tests)
    try:
        return match_ordered(report, tests, command_seconds(contract))
    except CommandRefusedError as error:
        return (), Broken(error.reason, "tests_gate", error.message)


def match_ordered(
    report: TestReport, tests: Iterable[tuple[AcceptanceTest, tuple[str, ...]]], seconds: float
) -> tuple[tuple[Ordered, ...], Broken | None]:
    """Return ``tests`` with their runs, or the fault when the report is not about exactly these.

    Args:
        report: the report.
        tests: each test with its argv.
        seconds: time limit of a command.
    """
    rest = list(report.commands)
    matched: list[Ordered] = []
    for test, argv in tests:
        runs = tuple(_runs(rest))
        if (misfit := _misfit(test, argv, runs, seconds)) is not None:
            return (), misfit
        matched.append(Ordered(test, runs))
    if rest:
        return (), Broken("tests_incomplete", "tests_gate", "commands ran that the contract does not have")
    return tuple(matched), None


def _misfit(test: AcceptanceTest, argv: tuple[str, ...], runs: tuple[TestCommand, ...], seconds: float) -> Broken | None:
    identity = (test.name, argv, test.must_pass)
    if not runs or any((command.name, command.cmd_argv, command.must_pass) != identity for command in runs):
        return Broken("tests_incomplete", "tests_gate", "the commands that ran are not those of the contract")
    if any(command.timeout_sec > seconds for command in runs):
        return Broken("tests_incomplete", "tests_gate", f"{test.name}: had more than the contract's {seconds:g} s")
    if len(runs) > 1 and (not test.may_rerun or passed(runs[0])):
        why = "passed at its first run" if test.may_rerun else "the contract does not allow it"
        return Broken("rerun_not_allowed", "rerun", f"{test.name} was run again: {why}")
    return None


def _runs(rest: list[TestCommand]) -> Iterator[TestCommand]:
    """Yield the next command of ``rest``, and its second run when that follows immediately."""
    if rest and rest[0].run == 1:
        yield rest.pop(0)
        if rest and rest[0].run == 2:
            yield rest.pop(0)


def contradictions(report: TestReport, ordered: tuple[Ordered, ...], failed: bool) -> Iterator[Broken]:
    """Yield inconsistencies of a report. ``failed``: it fails for another reason, which the status may reflect."""
    good = sum(passed(one.final) for one in ordered)
    summary = TestSummary(passed=good, failed=len(ordered) - good, skipped=0)
    if report.status != "PASS" and not failed:
        yield Broken("tests_failed", "tests_gate", f"the runner reports {report.status}")
    if report.status == "PASS" and report.failure is not None:
        yield Broken("report_contradicts", "tests_gate", f"the runner reports PASS, and a failure: {report.failure[:200]}")
    if ordered and report.summary is not None and report.summary != summary:
        yield Broken("report_contradicts", "tests_gate", "the summary does not match the commands")
    if (words := wrong_times(report.started_at, report.finished_at)) is not None:
        yield Broken("report_contradicts", "tests_gate", words)
