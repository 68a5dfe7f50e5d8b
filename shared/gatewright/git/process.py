"""Execution of one process, bounded in time and output, and ended when its caller goes away.

This module decides input, lifetime and ending. ``gatewright.git.command`` decides command, configuration and environment;
the process inherits nothing from the environment of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from gatewright.errors import GitError
from gatewright.host_errors import host_error
from gatewright.outside_calls import OutsideCalls

_CHUNK = 1 << 18
_STDERR_KEPT = 1 << 16
#: Seconds that a process gets to remove its lock files after SIGTERM; a lock left in a repository would stop its owner.
_GRACE = 3.0

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Finished:
    """A process that ended by itself. ``status`` is its exit code; ``stderr`` is cut after 64 KiB."""

    status: int
    stdout: bytes
    stderr: bytes


class OutputTooLargeError(GitError):
    """git answered with more bytes than the caller takes. Look at what the repository or the patch holds."""

    code = "git_output_too_large"


class KilledError(GitError):
    """A signal ended git: its own assertion (SIGABRT), or an operator."""

    code = "git_killed"

    def __init__(self, number: int) -> None:
        super().__init__(f"git was ended by signal {number}")
        self.number = number


class _Reach:
    """The hold that a waiting caller keeps on the process that its thread is running."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._group: int | None = None
        self._gone = False

    @contextlib.contextmanager
    def over(self, group: int) -> Iterator[None]:
        with self._lock:
            self._group = group
            if self._gone:
                _signal(group, signal.SIGTERM)
        try:
            yield
        finally:
            with self._lock:
                self._group = None

    def let_go(self) -> None:
        with self._lock:
            self._gone = True
            if self._group is not None:
                _signal(self._group, signal.SIGTERM)

    @property
    def gone(self) -> bool:
        return self._gone


_REACH: ContextVar[_Reach | None] = ContextVar("gatewright_git_reach", default=None)


@contextlib.contextmanager
def within_reach(group: int) -> Iterator[None]:
    """While the block lasts, the process group ``group`` is ended when the caller of ``in_thread`` is cancelled.

    GitError (``git_cancelled``) at the end when it was.
    """
    reach = _REACH.get() or _Reach()
    try:
        with reach.over(group):
            yield
    finally:
        if reach.gone:
            raise GitError("the caller of git went away", code="git_cancelled")


async def in_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run blocking ``work`` in a thread; when the caller is cancelled, end the process that it runs.

    Raises HostError for a failure of this host (no space, no permission), GitError (``git_failed``) for other errors of the
    file system.
    """
    return await _within_reach_of(asyncio.to_thread(work, *args, **kwargs))


async def in_thread_of(calls: OutsideCalls | None, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """``in_thread``, for work that asks a repository of another host: in the threads of the ``calls`` to that host.

    Without ``calls`` the repository is on this host. Raises as well what ``calls`` raise.
    """
    if calls is None:
        return await in_thread(work, *args, **kwargs)
    return await _within_reach_of(calls.call(None, work, *args, **kwargs))


async def _within_reach_of(working: Coroutine[Any, Any, _T]) -> _T:
    reach = _Reach()
    token = _REACH.set(reach)
    try:
        return await working
    except asyncio.CancelledError:
        reach.let_go()
        raise
    except OSError as error:
        raise host_error(error) or GitError(f"git's files cannot be used: {error}") from error
    finally:
        _REACH.reset(token)


def run_to_end(
    argv: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: bytes | None,
    timeout: float,
    limit: int | None,
    pass_fds: tuple[int, ...] = (),
) -> Finished:
    """Run ``argv``, an absolute path and its arguments, in ``/`` with exactly this environment, and wait for it.

    ``timeout`` in seconds; ``limit`` in bytes of standard output, None for no limit; ``pass_fds`` stay open in the process and
    all that it starts. GitError: ``git_missing``, ``git_timeout``, ``git_cancelled``, KilledError (ended by a signal),
    ``git_output_too_large``.
    """
    reach = _REACH.get() or _Reach()
    if reach.gone:
        raise GitError("the caller of git went away", code="git_cancelled")
    process = start(argv, environment, stdin=stdin is not None, pass_fds=pass_fds)
    try:
        with reach.over(process.pid):
            output, errors = _exchange(process, stdin or b"", time.monotonic() + timeout, limit)
            status = process.wait()
    except TimeoutError as error:
        raise GitError(f"git did not end within {timeout:g} s", code="git_timeout") from error
    finally:
        _kill_group(process)
    if reach.gone:
        raise GitError("the caller of git went away", code="git_cancelled")
    if status < 0:
        raise KilledError(-status)
    return Finished(status, output, errors)


def start(
    argv: Sequence[str], environment: Mapping[str, str], *, stdin: bool, pass_fds: tuple[int, ...] = ()
) -> subprocess.Popen[bytes]:
    """Start ``argv`` in ``/`` as its own process group, with pipes for output and optional input. Raises GitError."""
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd="/",
            env=environment,
            # A group of its own, so that git's children end with it; without a terminal, so that nothing can prompt.
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except (OSError, ValueError) as error:
        raise host_error(error) or GitError(f"git cannot be started: {error}") from error


def _exchange(process: subprocess.Popen[bytes], stdin: bytes, deadline: float, limit: int | None) -> tuple[bytes, bytes]:
    """Write and read the pipes concurrently, like ``Popen.communicate``, with a limit on the output in memory."""
    output, errors = bytearray(), bytearray()
    pending = memoryview(stdin)
    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, output), (process.stderr, errors)):
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, kept)
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            for key, _ in _ready(selector, deadline):
                if key.data is None:
                    pending = pending[_write_pipe(key.fd, pending) :]
                    done = not pending
                else:
                    chunk = os.read(key.fd, _CHUNK)
                    key.data.extend(chunk)
                    done = not chunk
                if done:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]  # only the three pipes are registered
            del errors[_STDERR_KEPT:]
            if limit is not None and len(output) > limit:
                raise OutputTooLargeError(f"git answered with more than {limit} bytes")
    return bytes(output), bytes(errors)


def _ready(selector: selectors.BaseSelector, deadline: float) -> list[tuple[selectors.SelectorKey, int]]:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return selector.select(left)


def _write_pipe(descriptor: int, data: memoryview) -> int:
    """Return how many bytes of ``data`` were written; all of them if git has stopped reading."""
    try:
        return os.write(descriptor, data[:_CHUNK])
    except BrokenPipeError:
        return len(data)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group and reap it."""
    if process.returncode is None:
        _signal(process.pid, signal.SIGTERM)
        last = time.monotonic() + _GRACE
        # WNOWAIT: while the leader is not reaped, its number cannot be reused for another group.
        while time.monotonic() < last and os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            time.sleep(0.01)
    end_group(process, signal.SIGKILL)


def end_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send ``number``, which ends it, to all of a process that was started here, wait for it, and close its pipes."""
    if process.returncode is None:
        _signal(process.pid, number)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
