"""The positions of hunks: the lines that their headers name, or the only other place where they fit. Pure.

git takes the nearest place that fits. If the file has changed since the patch was made and repeats the same lines, that may
be a different place than intended.
"""

from __future__ import annotations

from typing import Final

from gatewright.errors import PatchError
from gatewright.git.patches.faults import quote_path
from gatewright.git.patches.files import FilePatch, Hunk

#: Bytes that all searches for the hunks of one file may go through.
_MOST_SEARCHED: Final = 1 << 32
_STEP: Final = 1 << 14


def apply_in_place(content: bytes, data: bytes, part: FilePatch) -> bytes | None:
    """Return ``content`` with the hunks of ``part`` of the patch ``data`` at their stated positions; None if one does not
    fit."""
    pieces: list[bytes] = []
    done = at = 0
    line = 1
    for hunk in part.hunks:
        start = hunk.old_start + (not hunk.old_count)  # an insertion names the line before it
        if start < line:
            return None
        at = _skip(content, at, start - line)
        before, after = _sides(data, hunk)
        stop = at + len(before)
        if at < 0 or not content.startswith(before, at):
            return None
        # A side that ends without a line end ends the file.
        if (hunk.old_ends or hunk.new_ends) and stop != len(content):
            return None
        pieces += (content[done:at], after)
        done = at = stop
        line = start + hunk.old_count
    pieces.append(content[done:])
    return b"".join(pieces)


def refuse_ambiguous(content: bytes, data: bytes, part: FilePatch) -> None:
    """Refuse a hunk that does not fit at its stated position, but fits several other places of ``content``.

    Raises PatchError (``patch_does_not_apply``, ``patch_limit``).
    """
    if len(part.hunks) * len(content) > _MOST_SEARCHED:
        words = f"finding the hunks of {quote_path(part.path)} takes too long. Make the patch again on the commit of the run."
        raise PatchError(words, code="patch_limit", path=part.path)
    whole = b"\n" + content
    for number, hunk in enumerate(part.hunks, start=1):
        before, _ = _sides(data, hunk)
        at = _skip(content, 0, max(hunk.old_start - 1, 0))
        if at >= 0 and content.startswith(before, at):
            continue
        first = whole.find(b"\n" + before)
        if first >= 0 and whole.find(b"\n" + before, first + 1) >= 0:
            where = f"hunk {number} of {quote_path(part.path)} (line {hunk.line} of the patch)"
            cause = f"{where} does not match the baseline at line {hunk.old_start}, and fits several other places"
            raise PatchError(f"{cause}. Make the patch again on the commit that the run starts from.", path=part.path)


def _skip(content: bytes, at: int, lines: int) -> int:
    """Return the start of the line ``lines`` lines below the one that begins at ``at``; -1 if there are too few."""
    while lines > 0:
        ends = content.count(b"\n", at, at + _STEP)
        if ends < lines:
            if at + _STEP >= len(content):
                return -1
            lines -= ends
            at += _STEP
            continue
        for _ in range(lines):
            at = content.index(b"\n", at) + 1
        break
    return at


def _sides(data: bytes, hunk: Hunk) -> tuple[bytes, bytes]:
    """The lines of a hunk before and after the change."""
    lines = data[hunk.at : hunk.end].split(b"\n")
    before = b"\n".join([line[1:] for line in lines if not line.startswith((b"+", b"\\"))]) if hunk.old_count else b""
    after = b"\n".join([line[1:] for line in lines if not line.startswith((b"-", b"\\"))]) if hunk.new_count else b""
    return before[:-1] if hunk.old_ends else before, after[:-1] if hunk.new_ends else after
