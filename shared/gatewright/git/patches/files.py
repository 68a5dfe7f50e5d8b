"""The content of a patch by file: names, modes and body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple


class Prefixes(NamedTuple):
    """The prefixes of a file's path on either side: for example ``a/`` and ``b/``, or none."""

    old: bytes
    new: bytes

    @property
    def strip(self) -> int:
        """The value of ``git apply -p``."""
        return 1 if self.old else 0


class Hunk(NamedTuple):
    """A hunk. Its header is line ``line`` of the patch; its body is at bytes ``at`` to ``end`` of the patch.

    ``old_ends`` and ``new_ends``: the file ends there without a line end, on that side.
    """

    line: int
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    added: int
    removed: int
    at: int
    end: int
    old_ends: bool
    new_ends: bool


class BinaryPart(NamedTuple):
    """Encoded content, or a delta to it, of ``size`` bytes; its lines are at bytes ``at`` to ``end`` of the patch."""

    method: Literal["literal", "delta"]
    size: int
    at: int
    end: int


class BinaryBody(NamedTuple):
    """``forward`` leads to the new content, ``reverse`` back; ``lines`` are those of both, with their headers."""

    forward: BinaryPart
    reverse: BinaryPart | None
    lines: int


class FilePatch(NamedTuple):
    """A file of a patch, whose header begins on line ``line``, in the mail or commit number ``mail`` of the patch.

    The header is at bytes ``start`` to ``end`` of the patch.

    ``old`` and ``new`` are the paths on either side; None where the patch has no file. Modes are six octal digits, and ids
    may be abbreviated; empty where the patch names none.
    """

    line: int
    start: int
    end: int
    mail: int
    old: bytes | None
    new: bytes | None
    move: Literal["", "rename", "copy"] = ""
    old_mode: str = ""
    new_mode: str = ""
    old_id: bytes = b""
    new_id: bytes = b""
    hunks: tuple[Hunk, ...] = ()
    binary: BinaryBody | None = None

    @property
    def path(self) -> bytes:
        """The path after the change, or before it where the file is deleted."""
        return self.new if self.new is not None else self.old or b""

    @property
    def added(self) -> int:
        """Lines that are added."""
        return sum(hunk.added for hunk in self.hunks)

    @property
    def removed(self) -> int:
        """Lines that are removed."""
        return sum(hunk.removed for hunk in self.hunks)


class Reading(NamedTuple):
    """The files of a patch, in order, and its value of ``git apply -p``."""

    files: tuple[FilePatch, ...]
    strip: int = 1

    def paths(self) -> Iterator[bytes]:
        """The paths on both sides, once for each file that names them."""
        for file in self.files:
            if file.old is not None:
                yield file.old
            if file.new is not None and file.new != file.old:
                yield file.new
