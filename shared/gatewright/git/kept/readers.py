"""The kept git processes of one folder of mirrors; the most recently used stay.

They answer nothing that a new process would not. Every irregularity (busy with another request, ended, a git without the
command, a missing object) is resolved by a new process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.process import OutputTooLargeError, end_group, within_reach

# A long-running git process that answers requests on its standard input, one after another.
# Each request ends with a line that git answers in a known way. It contains a random number, so that no repository content can
# imitate the end of an answer. Only read commands run like this.
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
        pending = pending[_write_pipe(outgoing, pending) :]
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
                        pending = pending[_write_pipe(outgoing, pending) :]
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


def _write_pipe(descriptor: int, data: memoryview) -> int:
    """Return how many bytes of ``data`` were written to the pipe."""
    with contextlib.suppress(BlockingIOError):
        try:
            return os.write(descriptor, data)
        except BrokenPipeError as error:
            raise NoAnswerError("git reads no more") from error
    return 0


#: Processes kept; three for each mirror that is read and changed.
MOST = 12
#: Seconds after which one is replaced: it holds files open that maintenance has removed since.
_OLDEST = 300.0
#: Seconds that a request waits for another before it uses a new process.
_PATIENCE = 0.05
#: Deaths without any answer after which a command is not kept any more: this git does not know it.
_TRIES = 3
_SECONDS = 120.0

#: Answers each line with an object's kind, size and content, or kind and size alone (git 2.36).
CAT_FILE = ("cat-file", "--batch-command", "--buffer")


class _Kept:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.process: KeptProcess | None = None

    def end(self) -> None:
        """Call it with the lock."""
        process, self.process = self.process, None
        if process is not None:
            process.end()

    def end_unless_asked(self) -> None:
        if self.lock.acquire(blocking=False):
            try:
                self.end()
            finally:
                self.lock.release()


class KeptReaders:
    """At most ``most`` processes, for all mirrors of one folder. Threads share it."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        # The collector may end a mirror, and so call ``end``, in a thread that holds it.
        self._lock = threading.RLock()
        self._kept: OrderedDict[tuple[Path, tuple[str, ...]], _Kept] = OrderedDict()
        self._deaths: dict[tuple[str, ...], int] = {}

    def objects(self, git: GitCommand, how: str, names: list[str], id_length: int, limit: int | None = None) -> bytes | None:
        """Return the output of ``cat-file --batch`` (``how`` is ``contents``) or ``--batch-check`` (``info``) for ``names``.

        Each name is an object id or an id with ``^{kind}``. Returns None if a new process must answer.
        """
        mark = secrets.token_hex(id_length // 2)
        lines = "".join(f"{how} {name}\n" for name in names)
        return self._query_reader(git, CAT_FILE, f"{lines}info {mark}\nflush\n".encode(), f"{mark} missing\n".encode(), limit)

    def differences(
        self, git: GitCommand, options: tuple[str, ...], old: str, new: str, limit: int | None = None
    ) -> bytes | None:
        """Return the output of ``diff-tree`` for two trees; ``options`` set its form. ``limit`` in bytes. None as above."""
        mark = f"end {secrets.token_hex(20)}\n"
        head = f"{old} {new}\n".encode()
        whole = None if limit is None else limit + len(head)
        answer = self._query_reader(git, ("diff-tree", "--stdin", *options), head + mark.encode(), mark.encode(), whole)
        # The output starts with an echo of the request; a line that is not a pair of trees is also echoed.
        return answer[len(head) :] if answer is not None and answer.startswith(head) else None

    def end(self, git_dir: Path) -> None:
        """End the processes of one repository; a busy one ends after its answer."""
        with self._lock:
            ended = [self._kept.pop(key) for key in list(self._kept) if key[0] == git_dir]
        for kept in ended:
            kept.end_unless_asked()

    def _query_reader(
        self, git: GitCommand, words: tuple[str, ...], question: bytes, ending: bytes, limit: int | None
    ) -> bytes | None:
        if self._deaths.get(words, 0) >= _TRIES:
            return None
        with self._hold_place(git.git_dir, words) as kept:
            if kept is None:
                return None
            try:
                if kept.process is not None and time.monotonic() - kept.process.since > _OLDEST:
                    kept.end()
                if kept.process is None:
                    kept.process = KeptProcess(lambda: git.start(*words))
                with within_reach(kept.process.group):
                    answer = kept.process.ask(question, ending, timeout=_SECONDS, limit=limit)
            except NoAnswerError:
                if kept.process is not None and not kept.process.answered:
                    self._deaths[words] = self._deaths.get(words, 0) + 1
                kept.end()
                return None
            except BaseException:
                # The remaining output would be mistaken for the next answer.
                kept.end()
                raise
            self._deaths.pop(words, None)
            return answer

    @contextlib.contextmanager
    def _hold_place(self, git_dir: Path, words: tuple[str, ...]) -> Iterator[_Kept | None]:
        """The place of one process, which no other thread uses meanwhile; None when another one does for long."""
        key = (git_dir, words)
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            self._end_oldest()
        if not kept.lock.acquire(timeout=_PATIENCE):
            yield None
            return
        try:
            yield kept
        finally:
            kept.lock.release()
            with self._lock:
                dropped = self._kept.get(key) is not kept
            if dropped:
                kept.end_unless_asked()

    def _end_oldest(self) -> None:
        for key in list(self._kept)[: max(0, len(self._kept) - self._most)]:
            if (kept := self._kept.pop(key, None)) is not None:
                kept.end_unless_asked()
