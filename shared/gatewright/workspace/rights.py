"""Takes back the rights that a command took from us on what it left: its files are ours, but it may have made them unreadable."""

from __future__ import annotations

import os
import stat


def give_back(folder: int, name: str, status: os.stat_result) -> None:
    """Let the owner read a file, and use a folder, called ``name`` in ``folder``; ``status`` is what lstat said. No link is followed."""
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
        # Such a descriptor means one entry, whatever it is called meanwhile; it has no fchmod, but a name.
        os.chmod(f"/proc/self/fd/{place}", stat.S_IMODE(status.st_mode) | wanted)
    finally:
        os.close(place)
