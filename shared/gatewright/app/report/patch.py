"""A git patch parsed for display: files, hunks, lines. It is not applied, and no decision uses it.

The canonical patch has no renames, so both sides of a file have one name. Names are bytes; git quotes odd ones.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from gatewright.git.paths import display

Kind = Literal["added", "deleted", "modified", "mode"]
_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@(.*)")  # noqa: TID251 - linear: each try ends where the next one begins
_FILE = b"diff --git "
_SIMPLE = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')  # noqa: TID251 - linear: each try ends where the next one begins


@dataclass(frozen=True, slots=True)
class PatchLine:
    """``sign`` is ``+``, ``-``, a space, or ``\\`` for git's note on a missing line end. Numbers are None on the other side."""

    sign: str
    text: bytes
    old: int | None = None
    new: int | None = None


@dataclass(slots=True)
class Hunk:
    heading: bytes
    lines: list[PatchLine] = field(default_factory=list)


@dataclass(slots=True)
class FilePatch:
    """A changed file. ``name`` is displayed as by ``paths.display``; ``size`` is its bytes of the patch."""

    path: bytes
    kind: Kind = "modified"
    modes: tuple[str, str] = ("", "")
    binary: bool = False
    hunks: list[Hunk] = field(default_factory=list)
    size: int = 0

    @property
    def name(self) -> str:
        return display(self.path)

    @property
    def added(self) -> int:
        return sum(line.sign == "+" for hunk in self.hunks for line in hunk.lines)

    @property
    def removed(self) -> int:
        return sum(line.sign == "-" for hunk in self.hunks for line in hunk.lines)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """A file of an unparsed patch: its bytes are from ``start`` to ``end``."""

    path: bytes
    kind: Kind
    binary: bool
    added: int
    removed: int
    start: int
    end: int

    @property
    def name(self) -> str:
        return display(self.path)


def split_patch(data: bytes) -> tuple[FileSpan, ...]:
    """The files of a patch, in its order, with their line counts. Linear, and cheap for thousands of files.

    In a canonical patch no line of a hunk and no line of binary content begins as the header of a file does.
    """
    starts = [0] if data.startswith(_FILE) else []
    at = data.find(b"\n" + _FILE)
    while at >= 0:
        starts.append(at + 1)
        at = data.find(b"\n" + _FILE, at + 1)
    return tuple(_span(data, start, end) for start, end in pairwise([*starts, len(data)]))


def _span(data: bytes, start: int, end: int) -> FileSpan:
    body = data.find(b"\n@@ ", start, end)
    (head,) = parse_patch(data[start : end if body < 0 else body])
    added = data.count(b"\n+", body, end) if body >= 0 else 0
    removed = data.count(b"\n-", body, end) if body >= 0 else 0
    return FileSpan(head.path, head.kind, head.binary, added, removed, start, end)


def parse_patch(data: bytes) -> tuple[FilePatch, ...]:
    """The files of a patch, in its order; lines that are no part of one are passed over. A cut end gives a short last hunk."""
    files: list[FilePatch] = []
    old = new = 0
    for line in data.split(b"\n"):
        if line.startswith(_FILE):
            files.append(FilePatch(_path(line[11:])))
        if not files:
            continue
        file = files[-1]
        file.size += len(line) + 1
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            file.hunks.append(Hunk(found[3].strip()))
        elif file.hunks and line[:1] in b"+- \\" and line:
            sign = line[:1].decode("ascii")
            taken = PatchLine(sign, line[1:], old if sign in "- " else None, new if sign in "+ " else None)
            file.hunks[-1].lines.append(taken)
            old, new = old + (sign in "- "), new + (sign in "+ ")
        elif not file.hunks:
            _header(file, line)
    return tuple(files)


def _header(file: FilePatch, line: bytes) -> None:
    words = line.split(b" ")
    if line.startswith(b"new file mode "):
        file.kind = "added"
    elif line.startswith(b"deleted file mode "):
        file.kind = "deleted"
    elif line.startswith(b"old mode "):
        file.kind, file.modes = "mode", (words[-1].decode("ascii", "replace"), "")
    elif line.startswith(b"new mode "):
        file.modes = (file.modes[0], words[-1].decode("ascii", "replace"))
    elif line.startswith((b"GIT binary patch", b"Binary files ")):
        file.binary = True
    if file.kind == "mode" and line.startswith((b"--- ", b"GIT binary patch")):
        file.kind = "modified"


def listed_paths(listing: bytes) -> tuple[bytes, ...]:
    """The paths of a list of names as git prints it: one a line, quoted where they are odd. A cut last line is left out."""
    lines = listing.split(b"\n")[:-1]
    return tuple(_unquote(line[1:-1]) if line.startswith(b'"') else line for line in lines if line)


def _path(names: bytes) -> bytes:
    """Return the path in ``a/P b/P`` or ``"a/P" "b/P"``: both sides are the same path, so the second half suffices."""
    if names.startswith(b'"'):
        half = names[len(names) // 2 + 1 :]
        return _unquote(half.strip(b'"')).removeprefix(b"b/")
    return names[len(names) // 2 + 1 :].removeprefix(b"b/")


def _unquote(text: bytes) -> bytes:
    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([_SIMPLE[code] if code in _SIMPLE else int(code, 8) & 0xFF])

    return _ESCAPE.sub(plain, text)
