"""Confinement of this process, or one thread and its children, to writing in a few folders (Landlock).

For roles that must not be able to change anything, and for programs in folders that others fill. The kernel judges the file
that is finally reached, so a link out of the folders gains nothing. Reading and the network are unaffected.
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
#: Result of ``confine_writes`` after success.
CONFINED = "landlock"

_T = TypeVar("_T")


def confine_writes(folders: Sequence[Path], *, needed: int = TRUNCATING) -> str:
    """Confine this thread and everything it starts to writing below ``folders``, which exist. Irreversible.

    Call it before other threads start, if they should be confined too. ``needed`` is the oldest sufficient version of
    Landlock. Returns how it was done, or why not: ``landlock``, ``not confined: ...``.
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
    """Run ``work`` in a thread that, like everything it starts, writes only below ``folders``.

    ``work`` receives the result of ``confine_writes``, for programs that truncate only what they open.
    """

    def begin() -> _T:
        return work(confine_writes(folders, needed=RENAMING))

    with ThreadPoolExecutor(1, "confined") as one:
        return one.submit(copy_context().run, begin).result()


def _last_error() -> str:
    return f"not confined: {os.strerror(ctypes.get_errno())}"
