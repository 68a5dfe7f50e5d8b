"""A place in a patch, moved forward line by line."""

from __future__ import annotations


class Cursor:
    """The line of ``data`` that begins at ``at``, in bytes; ``number`` counts lines from 1."""

    __slots__ = ("at", "data", "number")

    def __init__(self, data: bytes, at: int = 0, number: int = 1) -> None:
        self.data = data
        self.at = at
        self.number = number

    @property
    def line(self) -> bytes | None:
        """The line without its line end; None at the end of the data."""
        if self.at >= len(self.data):
            return None
        end = self.data.find(b"\n", self.at)
        return self.data[self.at : end if end >= 0 else len(self.data)]

    @property
    def complete(self) -> bool:
        """Return whether the line has a line end."""
        return self.data.find(b"\n", self.at) >= 0

    def advance(self) -> None:
        """Go to the next line."""
        self.at = self._next_line_start()
        self.number += 1

    def move(self, at: int, number: int) -> None:
        """Go to the line ``number``, which begins at ``at``."""
        self.at, self.number = at, number

    def starts(self, *beginnings: bytes) -> bool:
        """Return whether the line begins with one of ``beginnings``."""
        return self.data.startswith(beginnings, self.at)

    def following(self, beginning: bytes) -> bool:
        """Return whether the next line begins with ``beginning``."""
        return self.data.startswith(beginning, self._next_line_start())

    def second_following(self, beginning: bytes) -> bool:
        """The same of the line after the next one."""
        end = self.data.find(b"\n", self._next_line_start())
        return end >= 0 and self.data.startswith(beginning, end + 1)

    def _next_line_start(self) -> int:
        end = self.data.find(b"\n", self.at)
        return end + 1 if end >= 0 else len(self.data)
