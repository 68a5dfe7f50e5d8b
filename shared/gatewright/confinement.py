"""Takes the right to write anywhere but in a few folders from this process, or from one thread and what it starts (Landlock).

For roles that have to be unable to change anything, and for programs that work in folders which others fill. The kernel judges
the file that is reached in the end, so a link that leads out of the folders opens nothing. Reading and the network stay as they
are.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import TypeVar

#: The same on every architecture (linux/include/uapi/asm-generic/unistd.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
#: Renaming across folders can be ruled only from version 2 on (Linux 5.19), truncating by name from version 3 on (Linux 6.2).
RENAMING, TRUNCATING = 2, 3
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
#: Write, remove (directory, file), make (device, directory, file, socket, fifo, block device, link), refer, truncate.
_WRITING = _WRITE_FILE | sum(1 << bit for bit in range(4, 15))
_NOTHING = Path(os.devnull)
#: What ``confine_writes`` returns when it has been done.
CONFINED = "landlock"

_T = TypeVar("_T")


def confine_writes(folders: Sequence[Path], *, needed: int = TRUNCATING) -> str:
    """From now on this thread and whatever it starts write only below ``folders``, which exist. Cannot be taken back.

    Call it before other threads are started, if they are meant too. ``needed`` is the oldest version of Landlock that serves.
    Returns how it was done, or why not: ``landlock``, ``not confined: ...``.
    """
    if sys.platform != "linux":
        return f"not confined: there is no Landlock on {sys.platform}"
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < needed:
        return f"not confined: this kernel's Landlock has version {max(version, 0)}, {needed} is needed"
    writing = _WRITING if version >= TRUNCATING else _WRITING & ~_TRUNCATE
    ruleset = libc.syscall(_CREATE_RULESET, struct.pack("Q", writing), 8, 0)
    if ruleset < 0:
        return _last_error()
    try:
        for place, rights in (*((folder, writing) for folder in folders), (_NOTHING, writing & (_WRITE_FILE | _TRUNCATE))):
            handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
            try:
                if libc.syscall(_ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, handle), 0):
                    return _last_error()
            finally:
                os.close(handle)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, ruleset, 0):
            return _last_error()
    finally:
        os.close(ruleset)
    return CONFINED


def run_confined(folders: Sequence[Path], work: Callable[[str], _T]) -> _T:
    """Run ``work`` in a thread of its own that writes only below ``folders``, and so does whatever ``work`` starts.

    ``work`` is told how it is confined, as ``confine_writes`` says it, for programs that truncate only what they open.
    """

    def begin() -> _T:
        return work(confine_writes(folders, needed=RENAMING))

    with ThreadPoolExecutor(1, "confined") as one:
        return one.submit(copy_context().run, begin).result()


def _last_error() -> str:
    return f"not confined: {os.strerror(ctypes.get_errno())}"
