"""Exclusion between the processes of one host that share a directory of mirrors. Nothing is excluded between hosts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from gatewright.errors import GitError
from gatewright.file_locks import lock_file


@contextlib.contextmanager
def hold_lock(path: Path, *, seconds: float) -> Iterator[int]:
    """Hold the lock file ``path`` (created on demand), waiting at most ``seconds`` for it; blocks the thread.

    Yields the descriptor: a process that inherits it keeps the lock alive when this one dies, so that none cleans up under a
    git that is still writing. GitError (``mirror_busy``) when the wait is over.
    """
    try:
        descriptor = lock_file(path, seconds=seconds)
    except BlockingIOError as error:
        raise GitError(f"another process holds {path.name}", code="mirror_busy") from error
    except OSError as error:
        raise GitError(f"the lock {path.name} cannot be opened: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)
