"""The acceptance commands of a contract as argvs, all read before any of them runs; and what counts as passed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.errors import CommandRefusedError
from gatewright.sandbox import parse_command


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


def has_passed(command: TestCommand) -> bool:
    """Only the exit code counts, of a command that was let to its end."""
    return command.exit_code == 0 and not command.timed_out


def summarise(done: Sequence[TestCommand], planned: int) -> TestSummary:
    """``planned`` commands were asked for; those that did not run were skipped."""
    passed = sum(has_passed(command) for command in done)
    return TestSummary(passed=passed, failed=len(done) - passed, skipped=planned - len(done))


def first_failure(done: Sequence[TestCommand]) -> str | None:
    """``tests_failed: ...`` for the first command that had to pass and did not."""
    for command in done:
        if command.must_pass and not has_passed(command):
            how = f"was killed after {command.timeout_sec:g} s" if command.timed_out else f"ended with {command.exit_code}"
            return f"tests_failed: {command.name} {how}"
    return None
