"""The lines that a canonical patch shows and adds, and their number. Pure; linear in the patch.

A canonical patch is the gatekeeper's own diff of two trees. A patch that cannot be read has no lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from gatewright.errors import PatchError
from gatewright.git.patches.files import FilePatch, Hunk
from gatewright.git.patches.reader import read_patch


def files_of(patch: bytes) -> tuple[FilePatch, ...]:
    """The files of a canonical patch; none where it cannot be read."""
    try:
        return read_patch(patch).files
    except PatchError:
        return ()


def shown_lines(patch: bytes) -> Mapping[str, frozenset[int]]:
    """Numbers of the lines in the hunks, by path: those of the new side as they are, removed ones as negative numbers."""
    found: dict[str, set[int]] = {}
    for file in files_of(patch):
        for sign, number in _number_lines(patch, file.hunks):
            name = file.old if sign == "-" else file.new
            if name is not None:
                found.setdefault(_decode_name(name), set()).add(-number if sign == "-" else number)
    return {path: frozenset(lines) for path, lines in found.items()}


def written_lines(patch: bytes) -> dict[str, set[int]]:
    """Numbers of added lines, from 1, by path."""
    found: dict[str, set[int]] = {}
    for file in files_of(patch):
        if file.new is not None and file.hunks:
            lines = found.setdefault(_decode_name(file.new), set())
            lines.update(number for sign, number in _number_lines(patch, file.hunks) if sign == "+")
    return found


def changed_lines(patch: bytes) -> int:
    """Lines that ``patch`` adds and removes; of a binary file, the lines of its encoded content."""
    return sum(file.added + file.removed + (file.binary.lines if file.binary is not None else 0) for file in files_of(patch))


def added_bytes(patch: bytes, files: Sequence[FilePatch]) -> int:
    """Return the bytes of ``patch`` that add content: all except removed lines, and content that ``files`` only move."""
    size = len(patch)
    gone: set[bytes] = set()
    for file in files:
        for hunk in file.hunks if file.removed else ():
            lines = [line for line in patch[hunk.at : hunk.end].split(b"\n") if line.startswith(b"-")]
            size -= sum(map(len, lines)) + len(lines)
            if file.new is None:
                gone.add(hashlib.sha256(b"\n".join(line[1:] for line in lines)).digest())
    for file in files:
        if file.old is None and file.hunks:
            lines = [line for line in patch[file.hunks[0].at : file.hunks[0].end].split(b"\n") if line.startswith(b"+")]
            digest = hashlib.sha256(b"\n".join(line[1:] for line in lines)).digest()
            if digest in gone:
                gone.discard(digest)
                size -= sum(map(len, lines)) + len(lines)
    return size


def _number_lines(patch: bytes, hunks: tuple[Hunk, ...]) -> Iterator[tuple[str, int]]:
    """Sign and number of each line: of a removed one on the old side, of all others on the new side."""
    for hunk in hunks:
        old, new = hunk.old_start, hunk.new_start
        body = patch[hunk.at : hunk.end].split(b"\n")
        for line in body[:-1] if not body[-1] else body:
            sign = line[:1].decode("latin-1") or " "
            if sign == "-":
                yield sign, old
                old += 1
            elif sign == "+":
                yield sign, new
                new += 1
            elif sign == " ":
                yield sign, new
                old, new = old + 1, new + 1


def _decode_name(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
