"""Settings that select which tests run. Only a scope that names their file opens them, in a manifest or in a file that a
command reads.

The policy's ``runner`` class lists files that belong to the runner by name. This module handles files of which only a part
does, and files that the contract's own commands read. Opening dependencies, or a folder, opens neither.
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
#: Maximum number of listed settings per file.
_MAX_LISTED = 4
#: Maximum number of compared manifests per change; in each further manifest every change is a finding.
_MOST_MANIFESTS = 200


async def judge_runner(context: ChangeContext, changes: Sequence[TreeChange], candidate: str) -> None:
    """Judge changes of settings that select which tests run.

    Args:
        context: the gate context with its mirror.
        changes: the changed paths.
        candidate: id of the tree after the change.

    Raises:
        GitError: the mirror cannot be read.
    """
    by_pattern = context.policies.runner
    rest = [change for change in changes if by_pattern not in context.policies.path_classes(change.path)]
    if not rest:
        return
    opened = AllowedPaths((context.contract.scope or Scope()).allow_protected_paths).exact
    tests = _commands(context.contract)
    reasons = await _changed_settings(rest, context.mirror, commands.tools_of(tests))
    reading = await what_is_read(tests, partial(_read_settings, context.mirror, candidate))
    for change in rest:
        if change.path not in reasons and reading.holds(change.path.decode("utf-8", "replace")):
            reasons[change.path] = "a command of the contract reads it to decide what it runs"
    for path, words in reasons.items():
        if path in opened:
            context.report.touched(RULE, path)
        else:
            context.report.violate("path_protected", RULE, f"{words}; opened only by {by_pattern.opened_by}", path)


async def _changed_settings(changes: Sequence[TreeChange], mirror: Mirror, names: frozenset[str]) -> dict[bytes, str]:
    """Return by path the changed runner settings inside a manifest, and the tools of ``names`` that it installs itself."""
    differing = [change for change in changes if change.old_id != change.new_id]
    manifests = [change for change in differing if settings.is_manifest(change.path)]
    reasons = {change.path: "settings of tests may change here" for change in manifests[_MOST_MANIFESTS:]}
    others = [change for change in differing if not settings.is_manifest(change.path) and is_dependency_file(change.path)]
    manifests = manifests[:_MOST_MANIFESTS] + others[:_MOST_MANIFESTS]
    wanted = {each for change in manifests for each, mode in change.sides if mode in REGULAR}
    sizes = await mirror.sizes(wanted) if wanted else {}
    contents = await mirror.blobs([each for each in wanted if sizes[each] <= settings.MOST_BYTES]) if wanted else {}
    for change in manifests:
        old, new = (
            contents.get(each, b" " * (settings.MOST_BYTES + 1)) if mode in REGULAR else None for each, mode in change.sides
        )
        parts = await asyncio.to_thread(settings.changed_settings, change.path, old, new)
        programs = await asyncio.to_thread(changed_programs, change.path, old, new)
        parts += tuple(f"the command {name}, which the contract runs" for name in sorted(programs & names))
        if parts:
            more = f" and {len(parts) - _MAX_LISTED} more" if len(parts) > _MAX_LISTED else ""
            listed = ", ".join(part[:80] for part in parts[:_MAX_LISTED])
            reasons[change.path] = f"settings of tests change: {listed}{more}"
    return reasons


def _commands(contract: TaskContract) -> list[list[str]]:
    """Return the contract's commands, split into words."""
    words = []
    for test in contract.acceptance_tests:
        try:
            words.append(shlex.split(test.cmd))
        except ValueError:  # the command gate has refused it
            continue
    return words


async def _read_settings(mirror: Mirror, tree: str, names: Sequence[str]) -> Mapping[str, bytes]:
    entries = await mirror.files(tree, tuple(names))
    wanted = {each.path.decode("utf-8", "replace"): each for each in entries if each.mode in REGULAR}
    chosen = {name: wanted[name].object_id for name in names if name in wanted and wanted[name].size <= commands.MOST_BYTES}
    contents = await mirror.blobs(chosen.values()) if chosen else {}
    return {name: contents[object_id] for name, object_id in chosen.items()}
