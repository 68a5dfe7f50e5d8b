"""Result of a failed command without the change, for people, who could otherwise search for an older fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from msgspec.structs import replace

from gatewright.contracts.reports import TestProof
from gatewright.ecosystems.port import Purpose
from gatewright.ecosystems.registry import recognise
from gatewright.git.mirror_tree import list_tree
from gatewright.sandbox import Completed, Sandbox
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.comparison import list_some
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented, build_earlier
from gatewright.workspace import Workspaces

#: Tests that are run once more.
_MOST = 200
#: Seconds that such a run may take beyond twice what the command took.
_PATIENCE = 10.0


def has_failed(completed: Completed) -> bool:
    """By itself: what was killed at a limit would be again."""
    return completed.exit_code != 0 and not completed.timed_out and not completed.stopped


class FailuresBefore:
    """Runs commands that failed in ``sandbox``, on the baseline."""

    def __init__(self, sandbox: Sandbox, workspaces: Workspaces) -> None:
        self._sandbox = sandbox
        self._workspaces = workspaces

    async def add_baseline_result(
        self, proof: TestProof, argv: tuple[str, ...], failed: Sequence[str], place: CommandPlace
    ) -> TestProof:
        """``proof`` with how ``argv`` ends there; of its tests only ``failed`` are run, if there are any.

        Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
        """
        candidate = place.candidate
        if candidate.baseline_tree == candidate.tree:
            return proof
        tree = await list_tree(candidate.mirror, candidate.baseline)
        framework = await recognise(argv, tree) if proof.framework else None
        again: list[str] = []
        async with self._workspaces.open(
            candidate.mirror, candidate.baseline, planted=place.provided, compiled=place.compiled
        ) as workspace:
            await build_earlier(place, workspace, self._sandbox)
            if framework is None or not failed:
                completed = await self._sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
            else:
                subject = Instrumented(argv, framework, self._sandbox, place.prefix, place.limits)
                completed, report = await subject.run(workspace, tree, AskedRun(Purpose.COLLECT, tuple(failed[:_MOST])))
                again = [each for each in failed if report.outcomes.get(each) == "failed"]
        if completed.timed_out or completed.stopped:
            return proof
        return replace(proof, exit_before=completed.exit_code, failed_before=list_some(again))


def bound_time(place: CommandPlace, completed: Completed) -> CommandPlace:
    """``place`` with not much more time than a command took that has failed."""
    seconds = min(place.limits.wall_seconds, 2 * completed.duration_seconds + _PATIENCE)
    return dataclasses.replace(place, limits=dataclasses.replace(place.limits, wall_seconds=seconds))
