"""Kinds of dependency changes: sources, indexes, scripts, overrides, build backends, commands, entry points.

The path class of that name decides whether dependencies may change. This module reports what a permitted change introduces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from gatewright.ecosystems.dependencies.comparing import MOST_BYTES, dependency_changes, is_dependency_file
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.services.gatekeeper.gates.change.contents import FilePair, file_pairs, in_portions
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE: Final = "dependency_changes"
#: Maximum number of listed lines per file and in total.
_MOST_OF_ONE: Final = 20
_MOST_OF_ALL: Final = 50
#: Maximum number of compared files per change, and bytes of all their versions.
_MOST_FILES: Final = 100
_MOST_BYTES_OF_ALL: Final = 64 << 20


async def remark_dependencies(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Add remarks on the kinds of change in every manifest and lock file of ``changes``.

    Raises:
        GitError: the mirror cannot be read.
    """
    report = context.report
    report.checked(RULE)
    pairs = [pair for pair in file_pairs(changes) if _is_watched(context, pair.path)]
    sizes = await context.mirror.sizes({each for pair in pairs for each in (pair.old_id, pair.new_id) if each})
    read: list[FilePair] = []
    left: list[FilePair] = []
    held = 0
    for pair in pairs:
        size = sum(sizes[each] for each in (pair.old_id, pair.new_id) if each)
        held += min(size, 2 * MOST_BYTES)
        (left if len(read) == _MOST_FILES or held > _MOST_BYTES_OF_ALL else read).append(pair)
    listed = unlisted = 0
    async for some, contents in in_portions(read, context.mirror):
        for pair in some:
            old, new = [contents[each] if each else None for each in (pair.old_id, pair.new_id)]
            lines = await asyncio.to_thread(lambda path, *both: list(dependency_changes(path, *both)), pair.path, old, new)
            shown = max(0, min(_MOST_OF_ONE, _MOST_OF_ALL - listed))
            for line in lines[:shown]:
                report.remark(RULE, display(line.encode("utf-8", "surrogatepass")), pair.path)
            listed += len(lines[:shown])
            unlisted += len(lines[shown:])
    if unlisted:
        report.remark(RULE, f"The change contains {listed + unlisted} dependency changes; {unlisted} of them are not listed.")
    if left:
        report.remark(RULE, f"{len(left)} more manifests and lock files were not compared.", left[0].path)


def _is_watched(context: ChangeContext, path: bytes) -> bool:
    return is_dependency_file(path) or any(kind.name == "dependencies" for kind in context.policies.path_classes(path))
