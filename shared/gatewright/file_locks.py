"""Locks between the processes of one host: the kernel's ``flock`` on a file or on a folder itself.

A lock is a descriptor. It ends when that is closed, also by the death of its process; a process that inherits the
descriptor keeps it. No lock file is ever removed: another process could hold it. Nothing is excluded between hosts.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

#: For opening a folder: a link in its place is not followed.
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_READING_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Seconds between two looks at a lock that is waited for so long and no longer.
_PAUSE: Final = 0.01


def lock_file(path: Path, *, shared: bool = False, reading: bool = False, seconds: float | None = 0.0) -> int:
    """The file ``path``, made when it is not there, to read and write, ours until it is closed; blocks the thread.

    With ``reading`` it is there, and may only be read.

    It is ours alone, or with all that have it ``shared``. It waits ``seconds`` at most; without end for None. Raises
    BlockingIOError when another process has it still, OSError.
    """
    flags = _READING_FLAGS if reading else _FILE_FLAGS
    return _lock(os.open(path, flags, 0o600), fcntl.LOCK_SH if shared else fcntl.LOCK_EX, seconds)


def lock_folder(path: Path, *, shared: bool = False, seconds: float | None = 0.0) -> int:
    """The folder ``path``, ours until it is closed: alone, or with all that have it ``shared``. The rest is as for a file."""
    return _lock(os.open(path, FOLDER_FLAGS), fcntl.LOCK_SH if shared else fcntl.LOCK_EX, seconds)


def _lock(descriptor: int, kind: int, seconds: float | None) -> int:
    try:
        if seconds is None:
            fcntl.flock(descriptor, kind)
        else:
            _wait(descriptor, kind, time.monotonic() + seconds)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _wait(descriptor: int, kind: int, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_PAUSE)
