"""The acceptance commands of a contract as argvs, all parsed before any runs; and the criterion for passing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.errors import CommandRefusedError
from gatewright.rules.reports.tests import final_runs, how_it_ended, passed
from gatewright.sandbox import parse_command
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.programs import not_found


@dataclass(frozen=True, slots=True)
class AcceptanceCommand:
    """One acceptance test, ready to run."""

    test: AcceptanceTest
    argv: tuple[str, ...]


def read_commands(tests: Sequence[AcceptanceTest]) -> tuple[AcceptanceCommand, ...]:
    """The commands in the contract's order. Raises CommandRefusedError that names the first which is no plain argv."""
    commands = []
    for test in tests:
        try:
            commands.append(AcceptanceCommand(test, parse_command(test.cmd)))
        except CommandRefusedError as error:
            raise CommandRefusedError(f"{test.name}: {error.message}") from error
    return tuple(commands)


def summarise(done: Sequence[TestCommand], planned: int) -> TestSummary:
    """``planned`` commands were asked for; those that did not run were skipped. A re-run is not counted twice."""
    final = final_runs(done)
    good = sum(passed(command) for command in final)
    return TestSummary(passed=good, failed=len(final) - good, skipped=planned - len(final))


def first_failure(done: Sequence[TestCommand], prefix: Shown = None) -> str | None:
    """``tests_failed: ...`` for the first command that had to pass and did not; ``prefix`` is what it was run with."""
    for command in final_runs(done):
        if command.must_pass and not passed(command):
            again = ", and so it did when it was run again" if command.run > 1 else ""
            missing = not_found(command.cmd_argv[0], prefix)
            return f"tests_failed: {command.name} {how_it_ended(command, missing)}{again}"
    return None
