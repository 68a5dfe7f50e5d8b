"""What decides which tests run is opened by name only, wherever it stands: in a manifest, or in a file that a command reads.

The files that are the runner's by their names are the class of that name in the policy. Here come the files of which only a
part is, and those that are because the contract's own commands read them: opening dependencies, or a folder, opens neither.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from functools import partial

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Scope
from gatewright.ecosystems.dependencies.comparing import changed_programs, is_dependency_file
from gatewright.ecosystems.runner import commands, settings
from gatewright.ecosystems.runner.reading import what_is_read
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import REGULAR
from gatewright.scope import AllowedPaths
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE = "protected_paths.runner"
#: Names of parts that are told, of one file.
_MOST_TOLD = 4
#: Manifests of one change that are compared; in each further one every change counts.
_MOST_MANIFESTS = 200


async def judge_runner(context: ChangeContext, changes: Sequence[TreeChange], candidate: str) -> None:
    """Judge the changes of what decides which tests run; ``candidate`` is the tree that they lead to. Raises GitError."""
    by_pattern = context.policies.runner
    rest = [change for change in changes if by_pattern not in context.policies.path_classes(change.path)]
    if not rest:
        return
    opened = AllowedPaths((context.contract.scope or Scope()).allow_protected_paths).exact
    tests = _commands(context.contract)
    reasons = await _changed_settings(rest, context.mirror, commands.tools_of(tests))
    reading = await what_is_read(tests, partial(_contents, context.mirror, candidate))
    for change in rest:
        if change.path not in reasons and reading.holds(change.path.decode("utf-8", "replace")):
            reasons[change.path] = "a command of the contract reads it to decide what it runs"
    for path, words in reasons.items():
        if path in opened:
            context.report.touched(RULE, path)
        else:
            context.report.violate("path_protected", RULE, f"{words}; opened only by {by_pattern.opened_by}", path)


async def _changed_settings(changes: Sequence[TreeChange], mirror: Mirror, names: frozenset[str]) -> dict[bytes, str]:
    """By path: which settings of the runner change inside a manifest, and which of the tools ``names`` it installs itself."""
    differing = [change for change in changes if change.old_id != change.new_id]
    manifests = [change for change in differing if settings.is_manifest(change.path)]
    reasons = {change.path: "settings of tests may change here" for change in manifests[_MOST_MANIFESTS:]}
    others = [change for change in differing if not settings.is_manifest(change.path) and is_dependency_file(change.path)]
    manifests = manifests[:_MOST_MANIFESTS] + others[:_MOST_MANIFESTS]
    wanted = {each for change in manifests for each, mode in _sides(change) if mode in REGULAR}
    sizes = await mirror.sizes(wanted) if wanted else {}
    contents = await mirror.blobs([each for each in wanted if sizes[each] <= settings.MOST_BYTES]) if wanted else {}
    for change in manifests:
        old, new = (
            contents.get(each, b" " * (settings.MOST_BYTES + 1)) if mode in REGULAR else None for each, mode in _sides(change)
        )
        parts = await asyncio.to_thread(settings.changed_settings, change.path, old, new)
        programs = await asyncio.to_thread(changed_programs, change.path, old, new)
        parts += tuple(f"the command {name}, which the contract runs" for name in sorted(programs & names))
        if parts:
            more = f" and {len(parts) - _MOST_TOLD} more" if len(parts) > _MOST_TOLD else ""
            told = ", ".join(part[:80] for part in parts[:_MOST_TOLD])
            reasons[change.path] = f"settings of tests change: {told}{more}"
    return reasons


def _sides(change: TreeChange) -> tuple[tuple[str, str], tuple[str, str]]:
    return (change.old_id, change.old_mode), (change.new_id, change.new_mode)


def _commands(contract: TaskContract) -> list[list[str]]:
    """The contract's commands, in words."""
    words = []
    for test in contract.acceptance_tests:
        try:
            words.append(shlex.split(test.cmd))
        except ValueError:  # the command gate has refused it
            continue
    return words


async def _contents(mirror: Mirror, tree: str, names: Sequence[str]) -> Mapping[str, bytes]:
    entries = await mirror.files(tree, tuple(names))
    wanted = {each.path.decode("utf-8", "replace"): each for each in entries if each.mode in REGULAR}
    chosen = {name: wanted[name].object_id for name in names if name in wanted and wanted[name].size <= commands.MOST_BYTES}
    contents = await mirror.blobs(chosen.values()) if chosen else {}
    return {name: contents[object_id] for name, object_id in chosen.items()}
