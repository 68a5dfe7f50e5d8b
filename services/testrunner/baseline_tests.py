"""The baseline's tests on the candidate: one more run, where a change touches what decides what is tested.

The tree of that run is the candidate's, but for the tests, the settings of their runner and the files that the command reads to
decide what it runs: these are as the baseline has them, those that it deleted come back, and those that it added are away.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from gatewright.contracts.reports import BaselineTests
from gatewright.ecosystems.port import Purpose, TreeFiles
from gatewright.ecosystems.records import RunnerReport
from gatewright.ecosystems.registry import recognise
from gatewright.ecosystems.runner import commands, settings
from gatewright.ecosystems.runner.names import is_runner_setting, is_test
from gatewright.ecosystems.runner.reading import what_is_read
from gatewright.errors import DeniedError
from gatewright.git.changes import FileChange, TreeChange
from gatewright.git.mirror_tree import list_tree
from gatewright.git.modes import ABSENT, REGULAR, SUBMODULE
from gatewright.git.paths import folders_above
from gatewright.sandbox import Completed
from gatewright.services.testrunner.commands import CommandPlace
from gatewright.services.testrunner.comparison import contradicts, count_outcomes, list_some, rewritten_of, test_files
from gatewright.services.testrunner.instrumented import AskedRun, Instrumented, build_earlier
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspace, Workspaces

_MOST_PATHS = 100
#: The exit codes of commands that a signal ended begin here.
BY_A_SIGNAL = 128
#: Maximum number of compared manifests per change; each further one is treated as changed.
_MOST_MANIFESTS = 200


class TreeRun(NamedTuple):
    """How a run ended, its reports and the test files that it changed."""

    completed: Completed
    report: RunnerReport
    rewritten: tuple[str, ...]


async def run_baseline_tests(
    subject: Instrumented, place: CommandPlace, tree: TreeFiles, workspaces: Workspaces
) -> BaselineTests | None:
    """None when the change touches nothing of it, or the baseline starts no framework that is known.

    ``tree`` is the candidate's. Raises SandboxError, ConfigurationError, DeniedError, GitError, UnavailableError.
    """
    candidate = place.candidate
    changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
    deciding = await deciding_paths(subject.argv, changes, tree, candidate)
    if not deciding:
        return None
    mixed = await partial_tree(candidate, changes, deciding)
    tried = await run_on_tree(subject, place, mixed, AskedRun(Purpose.ALL), workspaces)
    return _facts(deciding, *tried) if tried is not None else None


async def run_on_tree(
    subject: Instrumented, place: CommandPlace, tree: str, asked: AskedRun, workspaces: Workspaces
) -> TreeRun | None:
    """Run the command on another ``tree``; None if it starts no known framework there.

    Raises as ``run_baseline_tests`` does.
    """
    candidate = place.candidate
    files = await list_tree(candidate.mirror, tree)
    framework = await recognise(subject.argv, files)
    if framework is None:
        return None
    subject = dataclasses.replace(subject, framework=framework)
    provided = {path: content for path, content in place.provided.items() if path.decode("utf-8", "replace") not in files.paths}
    plain = not place.workspace.overlay
    async with workspaces.open(
        candidate.mirror, candidate.baseline, tree, plain=plain, planted=provided, compiled=place.compiled
    ) as workspace:
        await build_earlier(place, workspace, subject.sandbox)
        completed, report = await subject.run(workspace, files, asked)
        return TreeRun(completed, report, await _rewritten(workspace, report))


async def deciding_paths(
    argv: Sequence[str], changes: Sequence[TreeChange], tree: TreeFiles, candidate: RebuiltCandidate
) -> frozenset[bytes]:
    """The changed paths that decide what is tested, and how."""
    if not changes:
        return frozenset()
    before = await list_tree(candidate.mirror, candidate.baseline)
    readings = [await what_is_read([argv], partial(_read_files, files)) for files in (before, tree)]
    found = {
        change.path
        for change in changes
        if is_test(change.path)
        or is_runner_setting(change.path)
        or any(reading.holds(change.path.decode("utf-8", "replace")) for reading in readings)
    }
    manifests = [change for change in changes if change.path not in found and settings.is_manifest(change.path)]
    for number, change in enumerate(manifests):
        if number >= _MOST_MANIFESTS or await _settings_change(change, before, tree):
            found.add(change.path)
    return frozenset(found)


async def _settings_change(change: TreeChange, before: TreeFiles, now: TreeFiles) -> bool:
    path = change.path.decode("utf-8", "replace")
    # Existing files that are not read (such as links and large files) are treated as changed.
    unread = b" " * (settings.MOST_BYTES + 1)
    old = await before.read(path) if change.old_mode in REGULAR else None
    new = await now.read(path) if change.new_mode in REGULAR else None
    old = unread if old is None and change.status != "A" else old
    new = unread if new is None and change.status != "D" else new
    return bool(await asyncio.to_thread(settings.changed_settings, change.path, old, new))


async def _read_files(tree: TreeFiles, names: Sequence[str]) -> Mapping[str, bytes]:
    found = {name: await tree.read(name) for name in names if name in tree.paths}
    return {name: content for name, content in found.items() if content is not None and len(content) <= commands.MOST_BYTES}


async def partial_tree(candidate: RebuiltCandidate, changes: Sequence[TreeChange], left_out: frozenset[bytes]) -> str:
    """Return the baseline with ``changes``, but for those of ``left_out`` and those that stand in the place of such a file."""
    back = {change.path for change in changes if change.path in left_out and change.old_mode != ABSENT}
    above = {folder for path in back for folder in folders_above(path)}
    kept = [
        change
        for change in changes
        if change.path not in left_out | above and change.new_mode != SUBMODULE and back.isdisjoint(folders_above(change.path))
    ]
    contents = await candidate.mirror.blobs({change.new_id for change in kept if change.status != "D"})
    wanted = [
        FileChange(change.path, None)
        if change.status == "D"
        else FileChange(change.path, change.new_mode, contents[change.new_id])
        for change in kept
    ]
    return await candidate.mirror.write_tree(candidate.baseline, wanted)


async def _rewritten(workspace: Workspace, report: RunnerReport) -> tuple[str, ...]:
    """Return the tests that the run changed, or all of them when that is unknown."""
    files = test_files(report)
    try:
        changed = {change.path.decode("utf-8", "replace") for change in await workspace.changes()}
    except DeniedError:
        return list_some(files)
    return list_some(rewritten_of(files, changed, report.framework))


def _facts(deciding: frozenset[bytes], completed: Completed, report: RunnerReport, rewritten: tuple[str, ...]) -> BaselineTests:
    """A command that could not load a test, because nothing is as its tests expect it, has ended as tests that fail do."""
    stopped = completed.stopped or ("time" if completed.timed_out else "")
    unloaded = not report.begun and not report.forged and 0 < completed.exit_code < BY_A_SIGNAL
    whole = report.complete and not contradicts(completed, report)
    return BaselineTests(
        paths=tuple(sorted(path.decode("utf-8", "replace") for path in deciding)[:_MOST_PATHS]),
        exit_code=completed.exit_code,
        complete=not stopped and not rewritten and (whole or unloaded),
        counts=count_outcomes(report) if report.begun else None,
        failed=list_some(each for each, outcome in report.outcomes.items() if outcome == "failed"),
        unrun_count=len(report.collected - report.outcomes.keys()),
        rewritten=rewritten,
        stopped=stopped,
    )
