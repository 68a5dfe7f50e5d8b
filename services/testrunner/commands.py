"""The acceptance commands of a contract as argvs, all parsed before any runs; where they run; the criterion for passing."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.errors import CommandRefusedError
from gatewright.rules.reports.tests import final_runs, how_it_ended, passed
from gatewright.sandbox import SandboxLimits, parse_command
from gatewright.sandbox.environments import Environments, Shown
from gatewright.sandbox.port import CacheFolder
from gatewright.sandbox.programs import not_found
from gatewright.services.testrunner.known_environments import at_once
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace
from gatewright.workspace.bytecode import Bytecode


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


@dataclass(frozen=True, slots=True)
class BuiltBefore:
    """What a compiler has made of the baseline: the folder ``lower`` of the host, at ``at`` below the home of each run."""

    at: str
    lower: Path

    def for_run(self, workspace: Workspace) -> CacheFolder:
        """For one run in ``workspace``, an overlay: what it writes is not there for the next one."""
        return CacheFolder(self.at, self.lower, workspace.sources[0] / f"cache-{uuid.uuid4().hex}")


@dataclass(frozen=True, slots=True)
class BaselineEnvironment:
    """What commands on the baseline see where the candidate has pulled packages, and the digest of that."""

    prefix: Environments | None
    environment: str


@dataclass(frozen=True, slots=True)
class CommandPlace:
    """``workspace`` shows ``candidate`` and the files ``provided`` beside it.

    ``earlier`` are the contract's earlier commands that build something: every further workspace needs them. ``until``: when,
    by ``time.monotonic``, the run's time ends; None without such a budget. ``environment`` is the digest of everything below
    ``prefix`` and of the provided files, empty for none; nothing is cached under it before ``confirmed`` has returned.
    ``compiled`` is bytecode of the baseline's files, and ``built`` other compiled output, in every workspace of the command:
    otherwise it would reveal the control. ``tests_base``: whether the baseline has tests of its own, as in a merge queue, so
    that a failed command is not repeated there. ``before``: None where candidate and baseline see the same environment.
    """

    candidate: RebuiltCandidate
    workspace: Workspace
    prefix: Environments | None
    limits: SandboxLimits
    environment: str
    provided: Mapping[bytes, bytes]
    earlier: tuple[tuple[str, ...], ...] = ()
    until: float | None = None
    compiled: Mapping[bytes, Bytecode] = field(default_factory=dict)
    built: tuple[BuiltBefore, ...] = ()
    confirmed: Callable[[], Awaitable[object]] = at_once
    tests_base: bool = False
    before: BaselineEnvironment | None = None

    @property
    def on_baseline(self) -> CommandPlace:
        """Return the place for commands on the baseline: nothing that was pulled or compiled for the candidate is in it."""
        before = self.before
        if before is None:
            return self
        return replace(self, prefix=before.prefix, environment=before.environment, compiled={}, built=(), before=None)
