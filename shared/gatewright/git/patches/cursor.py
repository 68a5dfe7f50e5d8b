"""A place in a patch, moved forward line by line."""

from __future__ import annotations


class Cursor:
    """The current ``line`` of ``data`` without its line end; None at the end of the data.

    ``at`` is where the line begins, ``number`` counts lines from 1, and ``complete`` says whether a line end follows the line.
    """

    __slots__ = ("_next", "at", "complete", "data", "line", "number")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.line: bytes | None = None
        self.complete = False
        self.move(0, 1)

    def advance(self) -> None:
        """Go to the next line."""
        self.move(self._next, self.number + 1)

    def move(self, at: int, number: int) -> None:
        """Go to the line ``number``, which begins at ``at``."""
        self.at, self.number = at, number
        if at >= len(self.data):
            self.line, self.complete, self._next = None, False, at
            return
        end = self.data.find(b"\n", at)
        self.complete = end >= 0
        stop = end if self.complete else len(self.data)
        self.line, self._next = self.data[at:stop], stop + 1

    def starts(self, *beginnings: bytes) -> bool:
        """Whether there is a line that begins with one of ``beginnings``."""
        return self.line is not None and self.line.startswith(beginnings)

    def following(self, beginning: bytes) -> bool:
        """Whether the next line begins with ``beginning``."""
        return self.data.startswith(beginning, self._next)

    def second_following(self, beginning: bytes) -> bool:
        """The same of the line after the next one."""
        end = self.data.find(b"\n", self._next)
        return end >= 0 and self.data.startswith(beginning, end + 1)
