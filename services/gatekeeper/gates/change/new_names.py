"""The names that a change brings into a tree: within the limits of the policies, and what a reader takes them for.

The rules are the library's (``gatewright.git.names``), one home for patches, replies and commands. Here they meet the
candidate, with the operator's own limits.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.git.changes import TreeChange
from gatewright.git.modes import ABSENT
from gatewright.services.gatekeeper.gates.context import ChangeContext

LIMITS_RULE = "protected_paths.limits.names"
READABLE_RULE = "readable_names"


async def judge_name_limits(context: ChangeContext, changes: Sequence[TreeChange], baseline: str) -> bool:
    """Judge the paths that ``changes`` of the tree ``baseline`` add; what is there already is left alone. Raises GitError.

    False when one is beyond the limits: then nothing more about the tree is worth looking at.
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
    """No added name has characters that cannot be seen, lead a terminal or an editor, or are no text. Raises GitError."""
    context.report.checked(READABLE_RULE)
    for fault in await context.mirror.unreadable_faults(baseline, _added_names(changes)):
        context.report.violate(fault.code, READABLE_RULE, fault.words, fault.path)


def _added_names(changes: Sequence[TreeChange]) -> list[bytes]:
    return [change.path for change in changes if change.old_mode == ABSENT]
