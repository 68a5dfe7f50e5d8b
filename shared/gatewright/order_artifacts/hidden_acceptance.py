"""Hidden acceptance checks, which planners, makers and reviewers of a change never see: only the test runner receives them.

A contract marks a command as ``hidden``; files for hidden commands are input artifacts named ``hidden:PATH``. They replace the
candidate's files at that path, so that a test by the maker of the change cannot replace a hidden one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from msgspec.structs import replace

from gatewright.contracts import RunRequest, TaskContract, TestReport
from gatewright.contracts.people.revision_orders import FoundFault
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact

PREFIX: Final = "hidden:"
#: The test runner's record of the files that hidden commands edited.
CHANGES: Final = "hidden.workspace_changes"
#: Message for the maker of a change about failed hidden checks.
FAILED: Final = "hidden_tests_failed"

_Order = TypeVar("_Order", RunRequest, TaskContract)


def hidden_files(artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
    """Return the ``artifacts`` that are files for hidden commands."""
    return tuple(artifact for artifact in artifacts if artifact.name.startswith(PREFIX))


def hidden_path(artifact: Artifact) -> str:
    """Return the path of such a file, relative to the repository."""
    return artifact.name.removeprefix(PREFIX)


def hidden_tests(tests: Sequence[AcceptanceTest]) -> tuple[AcceptanceTest, ...]:
    return tuple(test for test in tests if test.hidden)


def visible(order: _Order) -> _Order:
    """Return ``order`` without its hidden checks: the same object when it has none."""
    tests = tuple(test for test in order.acceptance_tests if not test.hidden)
    given = order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    files = tuple(artifact for artifact in given if not artifact.name.startswith(PREFIX))
    if len(tests) == len(order.acceptance_tests) and len(files) == len(given):
        return order
    if isinstance(order, RunRequest):
        return replace(order, acceptance_tests=tests, artifacts=files)
    return replace(order, acceptance_tests=tests, inputs=replace(order.inputs, artifacts=files))


def with_hidden_part(contract: TaskContract, request: RunRequest) -> TaskContract:
    """Return the contract compiled from the visible part of ``request``, with the hidden part in its original places."""
    if contract.acceptance_tests != visible(request).acceptance_tests or visible(request) is request:
        return contract
    return replace(
        contract, acceptance_tests=request.acceptance_tests, inputs=replace(contract.inputs, artifacts=request.artifacts)
    )


def shown_to_makers(report: FoundFault, contract: TaskContract) -> FoundFault:
    """Return ``report`` for a further round of work: of hidden commands, only the number of failures."""
    hidden = {test.name for test in hidden_tests(contract.acceptance_tests)}
    if not isinstance(report, TestReport) or not hidden:
        return report
    commands = tuple(command for command in report.commands if command.name not in hidden)
    failing = _failing([command for command in report.commands if command.name in hidden])
    words = f"{FAILED}: {failing} of {len(hidden)} hidden checks did not pass"
    seen_failure = report.failure if any(_command_failed(command) for command in commands) or report.status == "ERROR" else None
    artifacts = tuple(artifact for artifact in report.artifacts if not _about(artifact, hidden))
    return replace(
        report, commands=commands, artifacts=artifacts, summary=None, failure=seen_failure or (words if failing else None)
    )


def _failing(commands: Sequence[TestCommand]) -> int:
    """Count the commands whose last run did not pass."""
    final = {command.name: command for command in commands}
    return sum(map(_command_failed, final.values()))


def _command_failed(command: TestCommand) -> bool:
    return command.exit_code != 0 or command.timed_out or bool(command.stopped)


def _about(artifact: Artifact, hidden: set[str]) -> bool:
    """Return whether an artifact of a report is about a hidden command: its output, its edits, its redactions."""
    return artifact.name in {CHANGES, "redactions"} or any(artifact.name.startswith(f"overlay.{name}.") for name in hidden)
