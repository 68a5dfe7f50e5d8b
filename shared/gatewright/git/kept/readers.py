"""The kept git processes of one folder of mirrors; the most recently used stay.

They answer nothing that a new process would not. Every irregularity (busy with another request, ended, a git without the
command, a missing object) is resolved by a new process.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from gatewright.git.command import GitCommand
from gatewright.git.kept.process import KeptProcess, NoAnswerError
from gatewright.git.process import within_reach

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
        return self._ask(git, CAT_FILE, f"{lines}info {mark}\nflush\n".encode(), f"{mark} missing\n".encode(), limit)

    def differences(
        self, git: GitCommand, options: tuple[str, ...], old: str, new: str, limit: int | None = None
    ) -> bytes | None:
        """Return the output of ``diff-tree`` for two trees; ``options`` set its form. ``limit`` in bytes. None as above."""
        mark = f"end {secrets.token_hex(20)}\n"
        head = f"{old} {new}\n".encode()
        whole = None if limit is None else limit + len(head)
        answer = self._ask(git, ("diff-tree", "--stdin", *options), head + mark.encode(), mark.encode(), whole)
        # The output starts with an echo of the request; a line that is not a pair of trees is also echoed.
        return answer[len(head) :] if answer is not None and answer.startswith(head) else None

    def end(self, git_dir: Path) -> None:
        """End the processes of one repository; a busy one ends after its answer."""
        with self._lock:
            ended = [self._kept.pop(key) for key in list(self._kept) if key[0] == git_dir]
        for kept in ended:
            kept.end_unless_asked()

    def _ask(self, git: GitCommand, words: tuple[str, ...], question: bytes, ending: bytes, limit: int | None) -> bytes | None:
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
