"""The hunks of a patch, read to their last line. Linear in the patch: lines that begin alike are read as one piece."""

from __future__ import annotations

import re
from typing import Final

from gatewright.errors import PatchError
from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.faults import REMAKE, SEND_UNALTERED, SEND_WHOLE, patch_fault, quote_path
from gatewright.git.patches.files import Hunk

HUNK: Final = b"@@ -"
#: Positions and counts have at most nine digits; the text behind is a line of the file.
_HEADER = re.compile(rb"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@(?: [^\n]*)?\n")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: The end of a run of lines that begin with one sign.
_ENDS = {sign: re.compile(rb"\n(?!%b)" % re.escape(sign)) for sign in (b"+", b"-", b" ")}  # noqa: TID251 - it looks ahead; linear: of a fixed length
#: ``\ No newline at end of file``, in any language: git accepts any text of this length.
_MARKER = b"\\ "
_SHORTEST_MARKER = 11


class _Body:
    """The state of reading one hunk: outstanding lines of each side, and the position."""

    __slots__ = (
        *("added", "at", "common", "data", "line", "new", "new_count", "new_ends", "new_start", "number"),
        *("old", "old_count", "old_ends", "old_start", "path", "removed", "start"),
    )

    def __init__(self, cursor: Cursor, path: bytes) -> None:
        found = _HEADER.match(cursor.data, cursor.at)
        if found is None:
            raise _unreadable_header(cursor, path)
        old_start, old_count, new_start, new_count = found.groups()
        self.data, self.path, self.line = cursor.data, path, cursor.number
        self.old_start, self.new_start = int(old_start), int(new_start)
        self.old = self.old_count = int(old_count or 1)
        self.new = self.new_count = int(new_count or 1)
        self.start = self.at = found.end()
        self.number = cursor.number + 1
        self.added = self.removed = self.common = 0
        self.old_ends = self.new_ends = False

    def read(self) -> Hunk:
        last = b""
        while self.old or self.new or (last and self.data.startswith(_MARKER, self.at)):
            sign = self.data[self.at : self.at + 1]
            if sign == b"\\":
                self._end_side(last)
                last = b""
            elif sign in _ENDS:
                self._take_run(sign)
                last = sign
            elif sign == b"\n":  # an empty context line whose blank an editor removed; git accepts it
                self._take(b" ", 1)
                self.at += 1
                last = b" "
            else:
                raise self._unexpected_line()
        if self._goes_on():
            raise self._count_mismatch()
        if not self.added and not self.removed:
            raise patch_fault(self.line, f"the hunk of {quote_path(self.path)} changes nothing", REMAKE, self.path)
        if not self.common and self.old_start > 1 - (self.old_count == 0):  # git would put it at the end of the file
            cause = f"the hunk of {quote_path(self.path)} has no lines of context"
            raise patch_fault(self.line, cause, "Make the patch again without -U0", self.path)
        return Hunk(
            line=self.line,
            old_start=self.old_start,
            old_count=self.old_count,
            new_start=self.new_start,
            new_count=self.new_count,
            added=self.added,
            removed=self.removed,
            at=self.start,
            end=self.at,
            old_ends=self.old_ends,
            new_ends=self.new_ends,
        )

    def _take_run(self, sign: bytes) -> None:
        """Lines that begin with ``sign``, as many as the hunk still promises."""
        found = _ENDS[sign].search(self.data, self.at)
        if found is None:
            raise patch_fault(self._last_line(), "the last line has no line end", SEND_WHOLE, self.path)
        end = found.start() + 1
        count = self.data.count(b"\n", self.at, end)
        left = {b"+": self.new, b"-": self.old, b" ": min(self.old, self.new)}[sign]
        if not left:
            raise self._count_mismatch()
        if count > left:  # the next file may begin with ``---``
            count, end = left, self.at
            for _ in range(left):
                end = self.data.index(b"\n", end) + 1
        self._take(sign, count)
        self.at = end

    def _take(self, sign: bytes, count: int) -> None:
        in_old, in_new = sign != b"+", sign != b"-"
        if (in_old and self.old_ends) or (in_new and self.new_ends):
            raise patch_fault(self.number, f"a line of {quote_path(self.path)} follows the end of the file", REMAKE, self.path)
        if (in_old and not self.old) or (in_new and not self.new):
            raise self._count_mismatch()
        self.old -= in_old * count
        self.new -= in_new * count
        self.removed += (sign == b"-") * count
        self.added += (sign == b"+") * count
        self.common += (sign == b" ") * count
        self.number += count

    def _end_side(self, last: bytes) -> None:
        """``\\ No newline at end of file`` belongs to the line before it."""
        stop = self.data.find(b"\n", self.at)
        if stop < 0:
            raise patch_fault(self.number, "the last line has no line end", SEND_WHOLE, self.path)
        in_old, in_new = last in {b"-", b" "}, last in {b"+", b" "}
        again = (in_old and self.old_ends) or (in_new and self.new_ends)
        if not last or again or stop - self.at < _SHORTEST_MARKER or not self.data.startswith(_MARKER, self.at):
            cause = f"a backslash stands where no line of {quote_path(self.path)} ends the file"
            raise patch_fault(self.number, cause, REMAKE, self.path)
        self.old_ends |= in_old
        self.new_ends |= in_new
        self.at, self.number = stop + 1, self.number + 1

    def _goes_on(self) -> bool:
        """Return whether more lines follow that could belong to the hunk."""
        if self.data.startswith((b"+", b" "), self.at):
            return True
        return self.data.startswith(b"-", self.at) and not self.data.startswith((b"--- ", b"-- \n", b"--\n"), self.at)

    def _unexpected_line(self) -> PatchError:
        """Return the error for a foreign line inside an incomplete hunk."""
        rest = self.data[self.at : self.at + 11]
        if self.at >= len(self.data) or rest.startswith((b"@@", b"diff --git ", b"-- \n")):
            return self._count_mismatch()
        advice = SEND_UNALTERED if rest.startswith(b"\r") else REMAKE
        cause = f"a line in the hunk of {quote_path(self.path)} does not begin with a space, + or -"
        return patch_fault(self.number, cause, advice, self.path)

    def _count_mismatch(self) -> PatchError:
        """Return the error for a hunk header whose counts differ from its lines, counting all lines that look like the
        hunk's."""
        added, removed, common = self.added, self.removed, self.common
        promised = f"promises {self.old_count} old and {self.new_count} new lines"
        at = self.at
        while self.data.startswith((b"+", b"-", b" "), at) and not self.data.startswith((b"--- ", b"-- \n"), at):
            added += self.data.startswith(b"+", at)
            removed += self.data.startswith(b"-", at)
            common += self.data.startswith(b" ", at)
            end = self.data.find(b"\n", at)
            at = end + 1 if end >= 0 else len(self.data)
        has = f"has {common + removed} and {common + added}"
        cut = at >= len(self.data) and (self.old or self.new)
        return patch_fault(
            self.line, f"the hunk of {quote_path(self.path)} {promised} and {has}", SEND_WHOLE if cut else REMAKE, self.path
        )

    def _last_line(self) -> int:
        return self.number + self.data.count(b"\n", self.at)


def read_hunks(cursor: Cursor, path: bytes) -> tuple[Hunk, ...]:
    """Read all hunks of the file ``path``, from the cursor's hunk header on, and move the cursor behind the last."""
    hunks: list[Hunk] = []
    while cursor.starts(b"@@"):
        if hunks and (hunks[-1].old_ends or hunks[-1].new_ends):
            raise patch_fault(cursor.number, f"a hunk of {quote_path(path)} follows the end of the file", REMAKE, path)
        body = _Body(cursor, path)
        hunks.append(body.read())
        cursor.move(body.at, body.number)
    return tuple(hunks)


def _unreadable_header(cursor: Cursor, path: bytes) -> PatchError:
    line = cursor.line or b""
    if line.startswith(b"@@@"):
        return patch_fault(cursor.number, "a combined diff of a merge cannot be applied", REMAKE, path)
    if line.endswith(b"@@\r"):
        return patch_fault(cursor.number, "the line ends are those of Windows", SEND_UNALTERED, path)
    if not cursor.complete:
        return patch_fault(cursor.number, "the last line has no line end", SEND_WHOLE, path)
    cause = f"the header of a hunk of {quote_path(path)} has no positions and counts, as in @@ -1,3 +1,4 @@"
    return patch_fault(cursor.number, cause, REMAKE, path)
