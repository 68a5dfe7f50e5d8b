"""Collection of a command's output, up to a limit.

More is read and discarded, so that a command with a long output goes on. One that writes without end sets ``overflow``, which
makes its supervisor end it.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

_CHUNK: Final = 1 << 16
#: A command that writes so many times the limit has no end.
_FLOOD: Final = 32


class Output:
    """``stdout`` and ``stderr`` are pipe ends that this object owns; ``limit`` is in bytes for both together."""

    def __init__(self, stdout: int, stderr: int, limit: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._parts: dict[int, bytearray] = {stdout: bytearray(), stderr: bytearray()}
        self._open = {stdout, stderr}
        self._names = (stdout, stderr)
        self._left = limit
        self._ceiling = _FLOOD * limit
        self._size = 0
        self.overflow = self._loop.create_future()
        self.ended = self._loop.create_future()
        for fd in self._names:
            os.set_blocking(fd, False)
            self._loop.add_reader(fd, self._read, fd)

    @property
    def stdout(self) -> bytes:
        """Return the output so far."""
        return bytes(self._parts[self._names[0]])

    @property
    def stderr(self) -> bytes:
        """Return the output so far."""
        return bytes(self._parts[self._names[1]])

    @property
    def truncated(self) -> bool:
        """Return whether there was more than the limit; the rest was read and discarded."""
        return self._left < 0

    @property
    def flooded(self) -> bool:
        """Return whether there was so much more that the command has to be ended."""
        return self._size > self._ceiling

    def close(self) -> None:
        """Stop reading and close the pipes. Safe to call twice."""
        for fd in tuple(self._open):
            self._close(fd)
        self.overflow.cancel()

    def _read(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._close(fd)
            return
        if self._left > 0:
            self._parts[fd] += data[: self._left]
        self._left -= len(data)
        self._size += len(data)
        if self.flooded:
            if not self.overflow.done():
                self.overflow.set_result(None)
            for other in self._open:
                self._loop.remove_reader(other)
            if not self.ended.done():
                self.ended.set_result(None)

    def _close(self, fd: int) -> None:
        self._loop.remove_reader(fd)
        self._open.discard(fd)
        os.close(fd)
        if not self._open and not self.ended.done():
            self.ended.set_result(None)
