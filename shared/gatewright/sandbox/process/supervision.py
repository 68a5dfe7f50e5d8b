"""Supervision of one started command until its end, with nothing of it left.

Time, output and the watched limits end a command early; so does cancelling the caller. In every case the whole process tree
is killed and awaited first, so that the workspace cannot change while it is read afterwards. The ``Tree`` that is passed in
decides how it is killed: a PID namespace, or a process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from gatewright.errors import SandboxError
from gatewright.sandbox.limits import SandboxLimits
from gatewright.sandbox.port import Completed, NetworkAttempts, Stopped
from gatewright.sandbox.process.start_barrier import StartBarrier, forget, when_readable
from gatewright.sandbox.process.uncancelled import finish_uncancelled
from gatewright.sandbox.process.watch import exceeded_limit

# Collection of a command's output, up to a limit.
# More is read and discarded, so that a command with a long output goes on. One that writes without end sets ``overflow``,
# which makes its supervisor end it.
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
            self._loop.add_reader(fd, self._read_chunk, fd)

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

    def _read_chunk(self, fd: int) -> None:
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


#: Between start and barrier only the sandbox's own set-up runs: milliseconds, unless the host has a problem.
_START_SECONDS: Final = 30.0
_END_SECONDS: Final = 10.0
_NICE: Final = 10
_FIRST_LOOK_SECONDS: Final = 0.05
_LOOK_SECONDS: Final = 0.2


class Tree(Protocol):
    """All processes of one command."""

    async def grasp(self, pid: int) -> None:
        """Called while the command, process ``pid``, waits at its gate."""

    def members(self) -> list[int]:
        """The process numbers of all of them now."""

    async def end(self) -> None:
        """Kill all of them; return when none is left."""

    def attempts(self) -> NetworkAttempts | None:
        """What they tried to send out of their own network so far; None if that is not known."""


class Started(NamedTuple):
    """A process whose command waits behind ``gate``. ``supervise`` consumes its pipes and its number."""

    process: subprocess.Popen[bytes]
    gate: StartBarrier
    tree: Tree


def start(
    argv: Sequence[str], gate: StartBarrier, *, cwd: Path, env: Mapping[str, str], descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start ``argv``, which waits behind ``gate``, in a session of its own. Raises SandboxError.

    ``descriptors`` stay open in it, under their numbers.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=gate.inner.fileno(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=env,
            pass_fds=descriptors,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"{argv[0]} cannot be started: {error}") from error
    finally:
        gate.inner.close()
    _yield_processor(os.PRIO_PGRP, process.pid)
    return process


def _yield_processor(which: int, who: int) -> None:
    """Hundreds of busy processes must not keep the service from its heartbeats and from ending them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(which, who, _NICE)


class NotStartedError(Exception):
    """The sandbox ended before the command could start; the text is its output."""


async def supervise(started: Started, limits: SandboxLimits, *, disk: Path | None) -> Completed:
    """Open the gate, follow the command to its end. ``disk`` is a folder on the file system that it writes to, None for memory.

    Raises NotStartedError when the sandbox's set-up failed, SandboxError when something does not end although it was killed.
    """
    process = started.process
    begun = time.monotonic()
    try:
        exit_fd = os.pidfd_open(process.pid)
        output = Output(*pipes(process), limits.output_bytes)
    except OSError as error:
        # The command still waits at its gate and ends when that is closed.
        process.kill()
        process.wait()
        raise SandboxError(f"the command cannot be followed: {error}") from error
    exited = when_readable(exit_fd)
    try:
        try:
            stopped = await _await_limit(started, exited, output, limits, disk)
        finally:
            await finish_uncancelled(end(started, exited, output.ended))
    finally:
        output.close()
        forget(exit_fd)
        os.close(exit_fd)
    if stopped is None:
        raise NotStartedError(output.stderr.decode("utf-8", "replace").strip() or f"it ended with code {process.returncode}")
    code = process.returncode
    return Completed(
        exit_code=code if code >= 0 else 128 - code,
        stdout=output.stdout,
        stderr=output.stderr,
        duration_seconds=time.monotonic() - begun,
        timed_out=stopped == "time",
        truncated=output.truncated,
        stopped="output" if output.flooded and not stopped else stopped,
        attempts=started.tree.attempts(),
    )


def pipes(process: subprocess.Popen[bytes]) -> tuple[int, int]:
    """The reading ends, taken away from Popen."""
    if process.stdout is None or process.stderr is None:
        raise SandboxError("the command was started without pipes")
    ends = os.dup(process.stdout.fileno()), os.dup(process.stderr.fileno())
    process.stdout.close()
    process.stderr.close()
    return ends


async def _await_limit(
    started: Started, exited: asyncio.Future[None], output: Output, limits: SandboxLimits, disk: Path | None
) -> Stopped | None:
    """Why the command has to be ended, the empty string when it ended by itself, None when it never started."""
    if await at_gate(started, exited) is None:
        return None
    started.gate.open()
    return await watch(started.tree, exited, limits, disk, overflow=output.overflow)


async def at_gate(started: Started, exited: asyncio.Future[None]) -> int | None:
    """The process number of the command, once it waits at its gate and can be ended; None when it never came there."""
    waiting = asyncio.ensure_future(started.gate.waiting())
    either: tuple[asyncio.Future[Any], ...] = (waiting, exited)
    try:
        await asyncio.wait(either, timeout=_START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        pid = waiting.result() if waiting.done() else None
    finally:
        waiting.cancel()
    if pid is None:
        return None
    await started.tree.grasp(pid)
    _give_up_first(pid)
    # The command may have begun a session of its own before the priority of its group was changed.
    _yield_processor(os.PRIO_PROCESS, pid)
    return pid


async def watch(
    tree: Tree, exited: asyncio.Future[None], limits: SandboxLimits, disk: Path | None, *, overflow: asyncio.Future[None]
) -> Stopped:
    """Wait until the command has ended by itself (the empty string), or has to be ended, and why."""
    deadline = time.monotonic() + limits.wall_seconds
    pause = _FIRST_LOOK_SECONDS
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            return "time"
        await asyncio.wait({exited, overflow}, timeout=min(left, pause), return_when=asyncio.FIRST_COMPLETED)
        if exited.done():
            return ""
        if overflow.done():
            return "output"
        if stopped := exceeded_limit(tree.members(), limits, disk):
            return stopped
        pause = _LOOK_SECONDS


def _give_up_first(pid: int) -> None:
    """When the host runs out of memory, let the kernel kill the command rather than a service; its children inherit this."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_bytes(b"1000")


async def end(started: Started, exited: asyncio.Future[None], silent: asyncio.Future[None]) -> None:
    """Kill all of it, wait until nothing is left. ``silent`` is done when its pipes are closed. Raises SandboxError."""
    try:
        async with asyncio.timeout(_END_SECONDS):
            await started.tree.end()
            await exited
            await silent
    except TimeoutError as error:
        raise SandboxError("the command was killed but does not end; the host needs a look") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.process.kill()
        started.process.wait()
