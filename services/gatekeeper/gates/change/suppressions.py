"""Comments and attributes that suppress a tool's findings: each new one is a remark."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from gatewright.ecosystems.suppressions.finding import SuppressionDiff
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.services.gatekeeper.gates.change.contents import FilePair, file_pairs, in_portions
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE: Final = "added_suppressions"
#: Maximum number of listed suppressions.
MOST_LISTED: Final = 40


async def remark_suppressions(context: ChangeContext, changes: Sequence[TreeChange]) -> None:
    """Add remarks on new suppressions, whole files first, and on files that could not be searched.

    Raises:
        GitError: the mirror cannot be read.
    """
    report = context.report
    report.checked(RULE)
    diff = SuppressionDiff()
    async for some, contents in in_portions(file_pairs(changes), context.mirror):
        await asyncio.to_thread(_compare, diff, some, contents)
    added = sorted(diff.added(), key=lambda each: (not each[1].whole_file, each[0], each[1].line))
    for path, each in added[:MOST_LISTED]:
        words = f"Adds `{display(each.words.encode())}`, which silences {each.tools} {each.reach}."
        report.remark(RULE, words, path, each.line)
    if len(added) > MOST_LISTED:
        files = len({path for path, _ in added})
        words = (
            f"The change adds {len(added)} suppressions in {files} files; {len(added) - MOST_LISTED} of them are not listed."
        )
        report.remark(RULE, words)
    if diff.unsearched:
        words = f"{len(diff.unsearched)} files are too large, or too many, to be searched for suppressions."
        report.remark(RULE, words, diff.unsearched[0])


def _compare(diff: SuppressionDiff, pairs: Sequence[FilePair], contents: Mapping[str, bytes]) -> None:
    for pair in pairs:
        old, new = [contents[each] if each else None for each in (pair.old_id, pair.new_id)]
        diff.compare(pair.path, old, new)
