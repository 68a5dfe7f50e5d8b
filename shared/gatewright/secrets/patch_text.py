"""Secrets in a patch outside the resulting content: in its text, in its removed lines, in lines that reach no file.

A patch is stored as received. ``changes.py`` judges its effect on files in the tree; this module judges all the rest of it,
used or not.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror
from gatewright.git.modes import NO_CONTENT
from gatewright.git.patches.binary import decode
from gatewright.git.patches.files import BinaryPart, Hunk, Reading
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.scanner import SecretScanner

#: Bytes of one binary file that is decoded for the search.
_MOST_DECODED: Final = 256 << 20
#: Maximum number of reported hits; one is enough to refuse a patch.
_MOST: Final = 200
#: git's own marker at the end of a file: it has no content.
_MARKER: Final = b"\\ No newline at end of file"


class PatchSecret(NamedTuple):
    """A secret that ``rule`` knows, on ``line`` of a patch, from 1."""

    rule: str
    line: int


async def secrets_in_patch_text(
    patch: bytes, reading: Reading, changes: Sequence[TreeChange], mirror: Mirror, scanner: SecretScanner
) -> tuple[PatchSecret, ...]:
    """Return secrets in parts of ``patch`` that reach no file, as ``reading`` and ``changes`` show; at most 200.

    A value that was already in one of the changed files is not reported. Raises GitError, and the errors of
    ``SecretScanner.find``.
    """
    found = await asyncio.to_thread(_find, patch, reading, scanner)
    if not found:
        return ()
    old = await mirror.blobs({change.old_id for change in changes if change.old_mode not in NO_CONTENT})
    before = EarlierValues(old.values())
    return tuple(PatchSecret(rule, line) for rule, line, value in found[:_MOST] if not before.held(value))


def values_in_patch_text(patch: bytes, reading: Reading, scanner: SecretScanner) -> Iterator[bytes]:
    """Yield probable secrets in parts of ``patch`` that reach no file. Raises the errors of ``SecretScanner.find``."""
    return (value for _, _, value in _find(patch, reading, scanner))


def decoded_parts(patch: bytes, parts: Sequence[BinaryPart]) -> Iterator[tuple[BinaryPart, bytes]]:
    """The bytes behind ``parts`` of a patch, one after another; what is corrupt or too large is left out."""
    for part in parts:
        content = decode(patch, part, _MOST_DECODED)
        if content is not None:
            yield part, content


def _find(patch: bytes, reading: Reading, scanner: SecretScanner) -> list[tuple[str, int, bytes]]:
    """Rule, line and value of each hit."""
    pieces = list(_loose_text(patch, reading))
    text = b"\n".join(piece for _, piece in pieces)
    starts = []
    length = 0
    for _, piece in pieces:
        starts.append(length)
        length += len(piece) + 1
    found = []
    for hit in scanner.find(text) if text.strip() else ():
        number = bisect_right(starts, hit.start) - 1
        at = pieces[number][0] + hit.start - starts[number]
        found.append((hit.rule, patch.count(b"\n", 0, at) + 1, text[hit.start : hit.end]))
    undone = [file.binary.reverse for file in reading.files if file.binary is not None and file.binary.reverse is not None]
    for part, content in decoded_parts(patch, undone):
        line = patch.count(b"\n", 0, part.at)
        found += [(hit.rule, line, content[hit.start : hit.end]) for hit in scanner.find(content)]
    return found


def _loose_text(patch: bytes, reading: Reading) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of ``patch`` that are neither file content nor headers of a fixed form; each with its offset."""
    done = 0
    for file in reading.files:
        yield done, patch[done : file.start]
        header = patch[file.start : file.end]
        if b"\t" in header:  # a time follows a name
            yield file.start, header
        done = file.end
        for hunk in file.hunks:
            # After the positions there may be a line of the file, or any text.
            heading = patch[done : hunk.at].split(b"@@", 2)[2]
            yield hunk.at - len(heading), heading
            yield from _markers(patch, hunk)
            done = hunk.end
        if file.binary is not None:
            parts = (file.binary.forward, file.binary.reverse)
            done = max(part.end for part in parts if part is not None)
    yield done, patch[done:]


def _markers(patch: bytes, hunk: Hunk) -> Iterator[tuple[int, bytes]]:
    """The lines in a hunk that no side has."""
    if not (hunk.old_ends or hunk.new_ends):
        return
    at = hunk.at
    for line in patch[hunk.at : hunk.end].split(b"\n"):
        if line.startswith(b"\\") and line != _MARKER:
            yield at, line
        at += len(line) + 1
