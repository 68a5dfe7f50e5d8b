"""The pipe for a reporter's records: it is in the folder of additions, and only Gatewright reads it.

It is a named pipe, because child processes lose an inherited descriptor, and because the code under test can neither read
nor change what was written to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

#: Name of the pipe in the folder of additions.
PIPE = "report"
#: Bytes that one command may report in all; a writer of more blocks until its command's time is over.
MOST_BYTES = 128 * 1024 * 1024
_CAPACITY = 1024 * 1024
_PIECE = 256 * 1024


class ReportPipe:
    """Gathers what is written while the event loop runs. Made by ``report_pipe``."""

    def __init__(self, reading: int, heard: Callable[[bytes], None]) -> None:
        self._reading = reading
        self._heard = heard
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def overflow(self) -> bool:
        """Return whether more arrived than is read."""
        return self._size > MOST_BYTES

    def lines(self) -> list[bytes]:
        """Return the lines received so far, after all writers have ended, including an unterminated last line."""
        self.drain()
        return [line for line in b"".join(self._pieces).split(b"\n") if line]

    def drain(self) -> None:
        """Read the available bytes without waiting."""
        with contextlib.suppress(BlockingIOError):
            while not self.overflow and (piece := os.read(self._reading, _PIECE)):
                self._pieces.append(piece)
                self._size += len(piece)
                self._heard(piece)
        if self.overflow:
            asyncio.get_running_loop().remove_reader(self._reading)


@contextmanager
def report_pipe(folder: Path, heard: Callable[[bytes], None] = lambda _: None) -> Iterator[ReportPipe]:
    """Yield a pipe in ``folder`` that every account may write to, read by the event loop until the context ends.

    ``heard`` receives each piece as it arrives.
    """
    place = folder / PIPE
    os.mkfifo(place, 0o600)
    # Open for writing as well, or the end of each writer would be the end of the file.
    reading = os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        # From now on no process can open it for reading: the command may run under this account.
        place.chmod(0o222)
        with contextlib.suppress(OSError):  # above the limit of this account: the usual size serves
            fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _CAPACITY)
        pipe = ReportPipe(reading, heard)
        loop = asyncio.get_running_loop()
        loop.add_reader(reading, pipe.drain)
        try:
            yield pipe
        finally:
            loop.remove_reader(reading)
    finally:
        os.close(reading)
