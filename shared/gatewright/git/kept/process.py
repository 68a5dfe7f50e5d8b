"""A long-running git process that answers requests on its standard input, one after another.

Each request ends with a line that git answers in a known way. It contains a random number, so that no repository content
can imitate the end of an answer. Only read commands run like this.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
import weakref
from collections.abc import Callable

from gatewright.errors import GitError
from gatewright.git.process import OutputTooLargeError, end_group

_CHUNK = 1 << 18


class NoAnswerError(Exception):
    """A kept git process ended without an answer, or closed its pipes; use a new process. No reader is left behind."""


class KeptProcess:
    """The process that ``start`` starts. One thread at a time uses it; any thread may call ``end``."""

    def __init__(self, start: Callable[[], subprocess.Popen[bytes]]) -> None:
        self._process = start()
        # A mirror that is given up while a thread still asks leaves a process that no other owner ends.
        self._finish = weakref.finalize(self, end_group, self._process, signal.SIGKILL)
        self.since = time.monotonic()
        #: Questions that were answered.
        self.answered = 0
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)

    @property
    def group(self) -> int:
        """The number of its process group."""
        return self._process.pid

    def ask(self, question: bytes, ending: bytes, *, timeout: float, limit: int | None) -> bytes:
        """Return the answer before the line ``ending``. After an error the process is unusable and must be ended.

        ``timeout`` in seconds; ``limit`` in bytes. Raises NoAnswerError, GitError (``git_timeout``), OutputTooLargeError.
        """
        answer, pending, deadline = bytearray(), memoryview(question), time.monotonic() + timeout
        process = self._process
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise NoAnswerError("git has no pipes")
        incoming, outgoing, errors = process.stdout.fileno(), process.stdin.fileno(), process.stderr.fileno()
        # Most requests fit into the pipe, and most answers arrive immediately.
        pending = pending[_write(outgoing, pending) :]
        with selectors.DefaultSelector() as selector:
            selector.register(incoming, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            if pending:
                selector.register(outgoing, selectors.EVENT_WRITE)
            while not answer.endswith(ending):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise GitError(f"git did not answer within {timeout:g} s", code="git_timeout")
                for key, _ in selector.select(left):
                    if key.fd == outgoing:
                        pending = pending[_write(outgoing, pending) :]
                        if not pending:
                            selector.unregister(outgoing)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                    if not chunk:
                        raise NoAnswerError("git ended without an answer")
                    if key.fd == incoming:
                        answer += chunk
                if limit is not None and len(answer) > limit + len(ending):
                    raise OutputTooLargeError(f"git answered with more than {limit} bytes")
        if pending:
            raise NoAnswerError("git answered before it was asked")
        self.answered += 1
        return bytes(memoryview(answer)[: -len(ending)])

    def end(self) -> None:
        """End the process with its whole group. It only reads, so nothing is lost."""
        self._finish()


def _write(descriptor: int, data: memoryview) -> int:
    """Return how many bytes of ``data`` were written to the pipe."""
    with contextlib.suppress(BlockingIOError):
        try:
            return os.write(descriptor, data)
        except BrokenPipeError as error:
            raise NoAnswerError("git reads no more") from error
    return 0
