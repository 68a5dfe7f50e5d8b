"""Stored form of changed files: as git stores them under the candidate's own attributes; and their line ends.

A blob that git would have stored in another form is refused. Baseline files that already had that form, and line ends that a
change mixes or converts, are remarks.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from gatewright.git.attributes.stored_form import (
    Attributes,
    FormFault,
    LineEndRemark,
    form_fault,
    is_lfs_pointer,
    line_end_remark,
)
from gatewright.git.changes import TreeChange, TreeEntry
from gatewright.git.modes import ABSENT, REGULAR
from gatewright.git.paths import display, is_gitattributes
from gatewright.services.gatekeeper.gates.change.contents import FilePair, file_pairs, in_portions
from gatewright.services.gatekeeper.gates.context import ChangeContext

RULE: Final = "stored_form"
LINE_ENDS_RULE: Final = "line_ends"
#: Maximum number of compared files when attributes change, and maximum bytes per file.
_MOST_COMPARED: Final = 5000
_LARGEST_COMPARED: Final = 1 << 20


async def judge_stored_form(context: ChangeContext, changes: Sequence[TreeChange], baseline: str, candidate: str) -> None:
    """Judge the stored form of changed files.

    1. Each written file has the form that its attributes require.
    2. Mixed or converted line ends are remarks.
    3. So are unchanged files whose form changed attributes affect.

    Raises:
        GitError: the mirror cannot be read.
    """
    report, mirror = context.report, context.mirror
    report.checked(RULE)
    report.checked(LINE_ENDS_RULE)
    pairs = [pair for pair in file_pairs(changes) if pair.new_id]
    attributes = await mirror.attributes(candidate, [pair.path for pair in pairs])
    async for some, contents in in_portions(pairs, mirror):
        for pair, fault, remark in await asyncio.to_thread(_form_faults, some, contents, attributes):
            if fault is not None and fault.earlier:
                report.remark(RULE, f"As before this change: {fault.words}", pair.path)
            elif fault is not None:  # 1
                report.violate(fault.code, RULE, fault.words, pair.path)
            if remark is not None:  # 2
                report.remark(LINE_ENDS_RULE, remark.words, pair.path, remark.line)
    for change in changes:
        if is_gitattributes(change.path.rpartition(b"/")[2]) and change.old_id != change.new_id:
            await _remark_attributes(context, change, changes, baseline, candidate)  # 3


def _form_faults(
    pairs: Sequence[FilePair], contents: Mapping[str, bytes], attributes: Mapping[bytes, Attributes]
) -> list[tuple[FilePair, FormFault | None, LineEndRemark | None]]:
    found = []
    for pair in pairs:
        new, old = contents[pair.new_id], contents[pair.old_id] if pair.old_id else None
        fault = form_fault(attributes[pair.path], new, old) if pair.path in attributes else None
        remark = line_end_remark(old, new) if fault is None else None
        if fault is not None or remark is not None:
            found.append((pair, fault, remark))
    return found


async def _remark_attributes(
    context: ChangeContext, change: TreeChange, changes: Sequence[TreeChange], baseline: str, candidate: str
) -> None:
    """Add remarks on the effect of a changed attributes file on files that the change leaves alone."""
    folder = change.path.rpartition(b"/")[0].decode("utf-8", "surrogateescape")
    touched = {each.path for each in changes if each.new_mode == ABSENT or each.new_id != each.old_id}
    entries = await context.mirror.files(candidate, (folder,) if folder else ())
    files = [each for each in entries if each.mode in REGULAR and each.path not in touched and each.size <= _LARGEST_COMPARED]
    if len(files) > _MOST_COMPARED:
        words = f"{len(files)} files lie below it; what the new attributes make of them was not looked at."
        context.report.remark(RULE, words, change.path)
        return
    paths = [each.path for each in files]
    old, new = [await context.mirror.attributes(tree, paths) for tree in (baseline, candidate)]
    differing = [each for each in files if old.get(each.path, Attributes()) != new.get(each.path, Attributes())]
    found: defaultdict[str, list[TreeEntry]] = defaultdict(list)
    pairs = [FilePair(each.path, "", each.object_id) for each in differing]
    by_path = {each.path: each for each in differing}
    async for some, contents in in_portions(pairs, context.mirror):
        for pair in some:
            attributes = new.get(pair.path, Attributes())
            fault = form_fault(attributes, contents[pair.new_id], None)
            if fault is not None:
                found["are stored in another form than the new attributes ask for"].append(by_path[pair.path])
            elif is_lfs_pointer(contents[pair.new_id]) and attributes.filter != "lfs":
                found["are pointers of Git LFS that nothing replaces by content any more"].append(by_path[pair.path])
    for words, some_files in found.items():
        first = display(some_files[0].path)
        context.report.remark(RULE, f"{len(some_files)} files {words}, {first} among them.", change.path)
