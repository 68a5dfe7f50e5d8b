"""Removal of files of any kind that a command left behind.

Folders without permissions, trees thousands of levels deep, links to anywhere, devices and pipes: no link is followed, only
folders are opened, and the number of open descriptors does not grow with the depth. The command is dead by then.
"""

from __future__ import annotations

import os
import stat
import uuid
from pathlib import Path

from gatewright.file_locks import FOLDER_FLAGS


# Takes back the rights that a command took away: what it left is ours to read and remove, but it may have forbidden both.
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


def remove_tree(path: Path) -> None:
    """Remove the folder ``path`` with its content; a missing one is no error. Raises OSError."""
    try:
        top = os.open(path, FOLDER_FLAGS)
    except FileNotFoundError:
        return
    try:
        os.fchmod(top, 0o700)
        while pending := _empty(top, top):
            for name in pending:
                give_back(top, name, os.stat(name, dir_fd=top, follow_symlinks=False))
                folder = os.open(name, FOLDER_FLAGS, dir_fd=top)
                try:
                    _empty(folder, top)
                finally:
                    os.close(folder)
                os.rmdir(name, dir_fd=top)
    finally:
        os.close(top)
    path.rmdir()


def _empty(folder: int, top: int) -> list[str]:
    """Unlink all files of ``folder`` and move its folders up into ``top``; returns the names of those that are in ``top``."""
    with os.scandir(folder) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    folders = []
    for name, is_folder in found:
        if not is_folder:
            os.unlink(name, dir_fd=folder)
        elif folder == top:
            folders.append(name)
        else:
            give_back(
                folder, name, os.stat(name, dir_fd=folder, follow_symlinks=False)
            )  # a folder that cannot be written cannot be moved either
            os.rename(name, uuid.uuid4().hex, src_dir_fd=folder, dst_dir_fd=top)
    return folders
