"""The changes of a command, found by reading files only: no git runs, and no link is followed.

One way for both kinds of workspace. The upper layer of an overlay is compared with the layers below; a plain checkout is
treated as an upper layer that hides everything. Files that were copied up or rewritten with the same content are no change,
and neither are empty folders, owners, times and permissions other than the owner's execute bit.

The command and all its processes are dead by then, so nothing moves underneath; its files may still be traps (a link, a
pipe, a folder without permissions, a tree of a million folders), which are refused or bounded.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import DeniedError
from gatewright.file_locks import FOLDER_FLAGS
from gatewright.git.changes import FileChange
from gatewright.git.modes import EXECUTABLE, FILE, SYMLINK
from gatewright.git.paths import display
from gatewright.workspace.layers import FILE_FLAGS, Layers, Parts, entered, is_whiteout
from gatewright.workspace.removal import give_back

_CHUNK: Final = 1 << 20
_OPAQUE: Final = "user.overlay.opaque"
#: git and the kernel refuse longer paths.
_MAX_PATH_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class ChangeBounds:
    """The largest change that is taken: files that differ, bytes of their contents, and entries that are looked at at all."""

    files: int = 20_000
    content_bytes: int = 256 << 20
    entries: int = 1_000_000


#: Decides whether a new file at a path is left out, of any kind.
LeaveOut = Callable[[bytes], bool]
#: No tree of git can contain it: it is the history given to a program, or a repository that the program made.
GIT_FOLDER: Final = ".git"


def leave_nothing_out(_path: bytes) -> bool:
    """Take every new file into the change."""
    return False


def difference(
    upper: Path, lower: Sequence[Path], *, hides_all: bool, bounds: ChangeBounds, leave_out: LeaveOut = leave_nothing_out
) -> tuple[FileChange, ...]:
    """Return the changes of ``upper`` to the stack ``lower`` (topmost first), sorted by path.

    ``hides_all``: nothing of ``lower`` shows through, as in a plain checkout. ``leave_out`` is called for each file that
    ``lower`` lacks, before its kind or content is read, and for a ``.git`` at the top.

    Raises DeniedError: ``special_file`` for a pipe, a socket or a device, ``change_too_large`` beyond ``bounds``.
    """
    return _Difference(upper, Layers(lower), hides_all=hides_all, bounds=bounds, leave_out=leave_out).changes()


class _Difference:
    def __init__(self, upper: Path, lower: Layers, *, hides_all: bool, bounds: ChangeBounds, leave_out: LeaveOut) -> None:
        self._upper = upper
        self._lower = lower
        self._bounds = bounds
        self._leave_out = leave_out
        self._hidden: set[Parts] = {()} if hides_all else set()  # where the stack does not show through any more
        self._present: set[Parts] = set()  # files and links in the upper layer, changed or not
        self._changed: dict[Parts, FileChange] = {}
        self._looked_at = 0
        self._bytes = 0

    def changes(self) -> tuple[FileChange, ...]:
        pending: list[Parts] = [()]
        while pending:
            above = pending.pop()
            with entered(self._upper, above) as folder:
                for name in self._list_names(folder):
                    parts = (*above, name)
                    if parts == (GIT_FOLDER,) and self._leave_out(_path(parts)):
                        continue
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    give_back(folder, name, status)
                    if stat.S_ISDIR(status.st_mode):
                        self._see_folder(parts, folder)
                        pending.append(parts)
                    elif is_whiteout(status):
                        self._hidden.add(parts)
                    else:
                        self._see_file(parts, status, folder)
        for parts in self._gone_paths():
            self._record(parts, FileChange(_path(parts), None))
        return tuple(sorted(self._changed.values(), key=lambda change: change.path))

    def _list_names(self, folder: int) -> list[str]:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        self._looked_at += len(names)
        if self._looked_at > self._bounds.entries:
            raise DeniedError(f"more than {self._bounds.entries} files and folders were left behind", code="change_too_large")
        return names

    def _see_folder(self, parts: Parts, above: int) -> None:
        if len(_path(parts)) > _MAX_PATH_BYTES:
            raise DeniedError(f"a folder lies deeper than {_MAX_PATH_BYTES} bytes of path", code="change_too_large")
        below = self._lower.status(parts)
        if below is not None and (not stat.S_ISDIR(below.st_mode) or _is_opaque(above, parts[-1])):
            self._hidden.add(parts)

    def _see_file(self, parts: Parts, status: os.stat_result, folder: int) -> None:
        self._present.add(parts)
        below = self._lower.status(parts)
        if below is not None and stat.S_ISDIR(below.st_mode):
            self._hidden.add(parts)
            below = None
        if below is None and self._leave_out(_path(parts)):
            return
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(parts[-1], dir_fd=folder))
            if below is None or not stat.S_ISLNK(below.st_mode) or self._lower.target(parts) != target:
                self._record(parts, FileChange(_path(parts), SYMLINK, target))
        elif stat.S_ISREG(status.st_mode):
            if below is None or not self._is_same(parts, status, below, folder):
                mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
                self._check_size(parts, status.st_size)
                with _open_entry(folder, parts[-1]) as file:
                    self._record(parts, FileChange(_path(parts), mode, _read_checked(file, status.st_size)))
        else:
            raise DeniedError(f"{display(_path(parts))} is a pipe, a socket or a device", code="special_file")

    def _is_same(self, parts: Parts, status: os.stat_result, below: os.stat_result, folder: int) -> bool:
        same_kind = stat.S_ISREG(below.st_mode) and not (status.st_mode ^ below.st_mode) & stat.S_IXUSR
        if not same_kind or status.st_size != below.st_size:
            return False
        with _open_entry(folder, parts[-1]) as ours, self._lower.opened(parts) as theirs:
            while True:
                one, other = os.read(ours, _CHUNK), os.read(theirs, _CHUNK)
                if one != other:
                    return False
                if not one:
                    return True

    def _gone_paths(self) -> Iterator[Parts]:
        for root in self._hidden:
            # Files below another hidden folder are found from there.
            if any(root[:depth] in self._hidden for depth in range(len(root))):
                continue
            for parts in self._lower.files_below(root):
                if parts not in self._present and parts[0] != GIT_FOLDER:
                    yield parts

    def _check_size(self, parts: Parts, size: int) -> None:
        self._bytes += size
        if self._bytes > self._bounds.content_bytes:
            path = display(_path(parts))
            raise DeniedError(
                f"the change has more than {self._bounds.content_bytes} bytes (at {path})", code="change_too_large"
            )

    def _record(self, parts: Parts, change: FileChange) -> None:
        self._changed[parts] = change
        if len(self._changed) > self._bounds.files:
            raise DeniedError(f"the change touches more than {self._bounds.files} files", code="change_too_large")


def _path(parts: Parts) -> bytes:
    return os.fsencode("/".join(parts))


@contextmanager
def _open_entry(folder: int, name: str) -> Iterator[int]:
    file = os.open(name, FILE_FLAGS, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)


def _read_checked(file: int, size: int) -> bytes:
    """Read at most the checked size, although no process is left to change it."""
    parts = []
    while size > 0 and (part := os.read(file, min(size, _CHUNK))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_opaque(folder: int, name: str) -> bool:
    place = os.open(name, FOLDER_FLAGS, dir_fd=folder)
    try:
        return os.getxattr(place, _OPAQUE) == b"y"
    except OSError:
        return False
    finally:
        os.close(place)
