"""Names that a change adds to a tree: within the limits of the policies, and unambiguous for a reader.

The rules come from ``gatewright.git.names``, the single source for patches, replies and commands. This module applies them to
the candidate, with the operator's limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.git.changes import TreeChange
from gatewright.git.modes import ABSENT
from gatewright.services.gatekeeper.gates.context import ChangeContext

LIMITS_RULE = "protected_paths.limits.names"
READABLE_RULE = "readable_names"


async def judge_name_limits(context: ChangeContext, changes: Sequence[TreeChange], baseline: str) -> bool:
    """Judge the names that ``changes`` add to the tree ``baseline``. Existing names are not judged.

    Returns:
        False when a name exceeds the limits; then nothing else about the tree is judged.

    Raises:
        GitError: the mirror cannot be read.
    """
    report = context.report
    limits = context.policies.protected.limits.tree
    words = f"{limits.path_bytes} bytes of path, {limits.name_bytes} of name, {limits.depth - 1} folders deep"
    report.checked(LIMITS_RULE, f"{words}; {limits.new_files} new files, {limits.new_directories} new folders")
    faults = await context.mirror.limit_faults(baseline, _added_names(changes), limits)
    for fault in faults:
        report.violate(fault.code, LIMITS_RULE, fault.words, fault.path)
    return not faults


async def judge_readable_names(context: ChangeContext, changes: Sequence[TreeChange], baseline: str) -> None:
    """Refuse added names with invisible characters, control sequences, or bytes that are not text.

    Raises:
        GitError: the mirror cannot be read.
    """
    context.report.checked(READABLE_RULE)
    for fault in await context.mirror.unreadable_faults(baseline, _added_names(changes)):
        context.report.violate(fault.code, READABLE_RULE, fault.words, fault.path)


def _added_names(changes: Sequence[TreeChange]) -> list[bytes]:
    return [change.path for change in changes if change.old_mode == ABSENT]
