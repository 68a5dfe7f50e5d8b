"""Takes back the rights that a command took away: what it left is ours to read and remove, but it may have forbidden both."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def give_back(folder: int, name: str, status: os.stat_result) -> None:
    """Let the owner read the file, or use the folder, ``name`` in ``folder``. No link is followed.

    ``status`` is the result of lstat.
    """
    if stat.S_ISDIR(status.st_mode):
        wanted = stat.S_IRWXU
    elif stat.S_ISREG(status.st_mode):
        wanted = stat.S_IRUSR
    else:
        return
    if status.st_mode & wanted == wanted:
        return
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        # Such a descriptor stands for one entry, even if it is renamed; it has no fchmod, but a name.
        Path(f"/proc/self/fd/{place}").chmod(stat.S_IMODE(status.st_mode) | wanted)
    finally:
        os.close(place)
