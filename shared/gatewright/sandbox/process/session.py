"""Holds a program that is talked to while it runs: its input and output are ours, and its end is the end of all of it.

Its standard error is read to the end and the last of it kept, so that a program that complains much does not stop. Time and the
watched limits end it early, which shows as the end of its output; so does leaving the context. In every case the whole tree
is killed and waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gatewright.errors import SandboxError
from gatewright.sandbox.limits import SandboxLimits
from gatewright.sandbox.port import NetworkAttempts, Stopped
from gatewright.sandbox.process.listening_inside import NotListeningError, listen_inside
from gatewright.sandbox.process.start_barrier import forget, when_readable
from gatewright.sandbox.process.supervision import NotStartedError, Started, at_gate, end, pipes, watch
from gatewright.sandbox.process.uncancelled import finish_uncancelled

_CHUNK: Final = 1 << 16
#: Seconds for a program to exit after its output has ended.
_EXIT_SECONDS: Final = 1.0
#: The last bytes of standard error that are kept.
_COMPLAINTS: Final = 256 << 10


class HeldSession:
    """See ``port.Session``."""

    def __init__(self, standard_input: socket.socket, stdout: int, stderr: int, door: socket.socket) -> None:
        self.door = door
        self.stopped: Stopped = ""
        self.exit_code: int | None = None
        self.attempts: NetworkAttempts | None = None
        self.output_ended = False
        self._input = standard_input
        self._output = stdout
        self._loop = asyncio.get_running_loop()
        self._complaints = bytearray()
        self._errors = stderr
        self._errors_ended: asyncio.Future[None] = self._loop.create_future()
        for fd in (stdout, stderr):
            os.set_blocking(fd, False)
        self._loop.add_reader(stderr, self._drain)

    @property
    def complaints(self) -> bytes:
        """The last of its standard error so far."""
        return bytes(self._complaints)

    async def read(self) -> bytes:
        """Return the next bytes of its standard output; none at the end. Nothing is read ahead, so a flooding program must
        wait."""
        while True:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._output, _CHUNK)
                self.output_ended = self.output_ended or not data
                return data
            try:
                await when_readable(self._output)
            finally:
                forget(self._output)

    async def write(self, data: bytes) -> None:
        """Write to its standard input. Raises OSError if it is closed; a cancelled write may or may not have happened."""
        await self._loop.sock_sendall(self._input, data)

    def finish(self) -> None:
        """The end of its standard input."""
        with contextlib.suppress(OSError):
            self._input.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Once all of it has ended: keep what it complained about at last, give the descriptors back."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._errors_ended
        self._loop.remove_reader(self._errors)
        for fd in (self._output, self._errors):
            os.close(fd)
        self._input.close()
        self.door.close()

    def _drain(self) -> None:
        try:
            data = os.read(self._errors, _CHUNK)
        except BlockingIOError:
            return
        self._complaints += data
        del self._complaints[:-_COMPLAINTS]
        if not data:
            self._loop.remove_reader(self._errors)
            if not self._errors_ended.done():
                self._errors_ended.set_result(None)


@asynccontextmanager
async def hold_session(started: Started, limits: SandboxLimits, *, disk: Path | None, port: int) -> AsyncIterator[HeldSession]:
    """Open the start barrier of ``started``, whose program then reads from us; ``port`` is that of its server.

    When the context ends none of its processes is left, and ``stopped`` and ``exit_code`` show how it ended. Raises
    NotStartedError if the sandbox's set-up failed, SandboxError without a socket, or if something does not end.
    """
    process = started.process
    try:
        exit_fd = os.pidfd_open(process.pid)
        stdout, stderr = pipes(process)
    except OSError as error:
        process.kill()
        process.wait()
        raise SandboxError(f"the program cannot be followed: {error}") from error
    exited = when_readable(exit_fd)
    session: HeldSession | None = None
    watching: asyncio.Future[None] | None = None
    try:
        pid = await at_gate(started, exited)
        if pid is None:
            os.set_blocking(stderr, False)
            raise NotStartedError(_last_words(stderr) or "it ended before the program could start")
        door = await _door(pid, port)
        session = HeldSession(started.gate.open_and_keep(), stdout, stderr, door)
        watching = asyncio.ensure_future(_watch(session, started, exited, limits, disk))
        yield session
    finally:
        try:
            await finish_uncancelled(
                _end_process(started, exited, watching, ending=session is not None and session.output_ended)
            )
        finally:
            if session is None:
                os.close(stdout)
                os.close(stderr)
            else:
                session.attempts = started.tree.attempts()
                session.exit_code = process.returncode if process.returncode >= 0 else 128 - process.returncode
                await session.close()
            forget(exit_fd)
            os.close(exit_fd)


async def _door(pid: int, port: int) -> socket.socket:
    try:
        return await finish_uncancelled(asyncio.to_thread(listen_inside, pid, port))
    except NotListeningError as error:
        raise SandboxError(f"no socket can be made inside the sandbox: {error}") from error


async def _watch(
    session: HeldSession, started: Started, exited: asyncio.Future[None], limits: SandboxLimits, disk: Path | None
) -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    session.stopped = await watch(started.tree, exited, limits, disk, overflow=never)
    if session.stopped:
        await started.tree.end()


async def _end_process(
    started: Started, exited: asyncio.Future[None], watching: asyncio.Future[None] | None, *, ending: bool
) -> None:
    """End it. ``ending``: it is about to exit by itself, and its own exit code is better than that of being killed."""
    if ending:
        await asyncio.wait({exited}, timeout=_EXIT_SECONDS)
    if watching is not None:
        # It may be ending the tree itself, and two cannot wait for one descriptor.
        watching.cancel()
        await asyncio.wait({watching})
    silent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    silent.set_result(None)
    await end(started, exited, silent)


def _last_words(stderr: int) -> str:
    try:
        return os.read(stderr, _CHUNK).decode("utf-8", "replace").strip()
    except OSError:
        return ""
