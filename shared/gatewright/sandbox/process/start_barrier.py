"""A barrier that holds a command back until its parent is ready, and identifies it to the parent.

Between the start of a sandbox and its first instruction there are milliseconds in which the parent may die or be cancelled,
and bubblewrap's own ``--die-with-parent`` has a gap there (its issues 633 and 700). So the first program inside is a fixed
shell script that reports its start and waits for one line before it becomes the command. If the parent is gone it reads end
of file and exits, and the command never starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid
#: The words of the command are arguments of this script, never part of it.
_SCRIPT: Final = 'echo >&0 && read -r go && exec "$@" </dev/null'
#: A shell reads a socket byte by byte, so input after the line is for the command.
_TALKING_SCRIPT: Final = 'echo >&0 && read -r go && exec "$@"'


def behind_gate(argv: Sequence[str], *, talking: bool = False) -> tuple[str, ...]:
    """The argv that becomes ``argv``, looked for on PATH, once the gate opens; its standard input must be ``Gate.inner``.

    ``talking``: that stays its standard input, with ``StartBarrier.open_and_keep`` at the other end.
    """
    return ("/bin/sh", "-c", _TALKING_SCRIPT if talking else _SCRIPT, "sandbox", *argv)


class StartBarrier:
    """One end stays with the parent; ``inner`` is the standard input of the child, and is closed here once it has started."""

    def __init__(self) -> None:
        self._outer, self.inner = socket.socketpair()
        self._outer.setblocking(False)
        # The kernel then reports the writer, in our own process numbers.
        self._outer.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._outer.close()
        self.inner.close()

    async def waiting(self) -> int | None:
        """The process number of the command at the gate; None when it ended before it came here."""
        await readable(self._outer.fileno())
        try:
            data, extra, _, _ = self._outer.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        except OSError:
            return None
        if not data:
            return None
        for level, kind, value in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
                return int(_CREDENTIALS.unpack(value)[0])
        return None

    def open(self) -> None:
        """Let the command run. Does nothing if it has ended."""
        with contextlib.suppress(OSError):
            self._outer.send(b"\n")
        self._outer.close()

    def open_and_keep(self) -> socket.socket:
        """Let the command run; what is written to the socket is its standard input. It is the caller's to close."""
        with contextlib.suppress(OSError):
            self._outer.send(b"\n")
        kept = socket.socket(fileno=self._outer.detach())
        kept.setblocking(False)
        return kept


def when_readable(fd: int) -> asyncio.Future[None]:
    """A future that is done once ``fd`` can be read: for a pidfd, once the process has ended. ``forget`` it if it is not."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        loop.remove_reader(fd)
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, note)
    return ready


def forget(fd: int) -> None:
    """Wait for ``fd`` no longer, so that it can be closed."""
    asyncio.get_running_loop().remove_reader(fd)


async def readable(fd: int) -> None:
    """Wait until ``fd`` can be read."""
    try:
        await when_readable(fd)
    finally:
        forget(fd)
