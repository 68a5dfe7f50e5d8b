"""Exclusion between the processes of one host that share a directory of mirrors. Nothing is excluded between hosts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from gatewright.errors import GitError

_PAUSE = 0.02


@contextlib.contextmanager
def held(path: Path, *, seconds: float) -> Iterator[int]:
    """Hold the lock file ``path`` (created on demand), waiting at most ``seconds`` for it; blocks the thread.

    Yields the descriptor: a process that inherits it keeps the lock alive when this one dies, so that none cleans up under a
    git that is still writing. GitError (``mirror_busy``) when the wait is over.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise GitError(f"the lock {path.name} cannot be opened: {error.strerror}") from error
    try:
        _wait(descriptor, path, time.monotonic() + seconds)
        yield descriptor
    finally:
        os.close(descriptor)


def _wait(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise GitError(f"another process holds {path.name}", code="mirror_busy") from error
            time.sleep(_PAUSE)
        else:
            return
