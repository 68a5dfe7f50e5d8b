"""Takes from this process, and from all that it will start, the right to write anywhere but in a few folders (Linux: Landlock).

For roles that have to be unable to change anything, whatever they are talked into. Reading and the network stay as they are.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

#: The same on every architecture (linux/include/uapi/asm-generic/unistd.h).
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
#: Renaming across folders can be ruled only from version 2 on, truncating from version 3 on.
_NEEDED = 3
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
#: Write, remove (directory, file), make (device, directory, file, socket, fifo, block device, link), refer, truncate.
_WRITING = _WRITE_FILE | sum(1 << bit for bit in range(4, 15))
_NOTHING = Path(os.devnull)


def confine_writes(folders: Sequence[Path]) -> str:
    """From now on this thread and whatever it starts write only below ``folders``, which exist. Cannot be taken back.

    Call it before other threads are started. Returns how it was done, or why not: ``landlock``, ``not confined: ...``.
    """
    if sys.platform != "linux":
        return f"not confined: there is no Landlock on {sys.platform}"
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < _NEEDED:
        return f"not confined: this kernel's Landlock has version {max(version, 0)}, {_NEEDED} is needed"
    ruleset = libc.syscall(_CREATE_RULESET, struct.pack("Q", _WRITING), 8, 0)
    if ruleset < 0:
        return _failed()
    try:
        for place, rights in (*((folder, _WRITING) for folder in folders), (_NOTHING, _WRITE_FILE | _TRUNCATE)):
            handle = os.open(place, os.O_PATH | os.O_CLOEXEC)
            try:
                if libc.syscall(_ADD_RULE, ruleset, _BENEATH, struct.pack("=Qi", rights, handle), 0):
                    return _failed()
            finally:
                os.close(handle)
        if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT_SELF, ruleset, 0):
            return _failed()
    finally:
        os.close(ruleset)
    return "landlock"


def _failed() -> str:
    return f"not confined: {os.strerror(ctypes.get_errno())}"
