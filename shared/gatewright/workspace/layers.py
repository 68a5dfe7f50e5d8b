"""Looks into a stack of read-only layers as the overlay shows them: the upper ones first, whiteouts hide what is below.

Links inside a layer are entries like others and never followed: a layer holds a hostile tree, and a link in it may point
anywhere on the host. A path is a tuple of names, as the file system gives them; the empty one is the root.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gatewright.file_locks import FOLDER_FLAGS

FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Parts = tuple[str, ...]


def is_whiteout(status: os.stat_result) -> bool:
    """Return whether this is the mark of a deleted entry: a character device 0:0."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


@contextmanager
def entered(root: Path, parts: Parts) -> Iterator[int]:
    """A descriptor of the folder ``parts`` below ``root``. OSError when there is none, or something else is in the way."""
    folder = os.open(root, FOLDER_FLAGS)
    try:
        for part in parts:
            below = os.open(part, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


class Layers:
    """``roots`` are the directories of the layers, the topmost first."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = tuple(roots)

    def status(self, parts: Parts) -> os.stat_result | None:
        """Return the status of the path in the stack; None if missing."""
        found = self._find(parts)
        return None if found is None else found[1]

    @contextmanager
    def opened(self, parts: Parts) -> Iterator[int]:
        """A descriptor of the file that ``status`` has seen, to be read."""
        with entered(self._holding(parts), parts[:-1]) as folder:
            file = os.open(parts[-1], FILE_FLAGS, dir_fd=folder)
            try:
                yield file
            finally:
                os.close(file)

    def target(self, parts: Parts) -> bytes:
        """The target of the link that ``status`` has seen."""
        with entered(self._holding(parts), parts[:-1]) as folder:
            return os.fsencode(os.readlink(parts[-1], dir_fd=folder))

    def files_below(self, parts: Parts) -> Iterator[Parts]:
        """The paths of all files and links at or below ``parts``."""
        status = self.status(parts)
        if status is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            yield parts
            return
        pending = [parts]
        while pending:
            above = pending.pop()
            for name, is_folder in self._folder_names(above).items():
                if is_folder:
                    pending.append((*above, name))
                else:
                    yield (*above, name)

    def _holding(self, parts: Parts) -> Path:
        found = self._find(parts)
        if found is None:
            raise FileNotFoundError("/".join(parts))
        return found[0]

    def _find(self, parts: Parts) -> tuple[Path, os.stat_result] | None:
        for root in self._roots:
            hidden, status = _find_entry(root, parts)
            if status is not None:
                return root, status
            if hidden:
                break
        return None

    def _folder_names(self, parts: Parts) -> dict[str, bool]:
        """The names in a folder of the stack; True for folders."""
        seen: set[str] = set()
        names: dict[str, bool] = {}
        for root in self._roots:
            hidden, status = _find_entry(root, parts)
            if hidden or (status is not None and not stat.S_ISDIR(status.st_mode)):
                break
            if status is None:
                continue
            with entered(root, parts) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name not in seen:
                        seen.add(entry.name)
                        if not is_whiteout(entry.stat(follow_symlinks=False)):
                            names[entry.name] = entry.is_dir(follow_symlinks=False)
        return names


def _find_entry(root: Path, parts: Parts) -> tuple[bool, os.stat_result | None]:
    """Return a layer's entry at a path, and whether the layer hides the path of the layers below without one."""
    folder = os.open(root, FOLDER_FLAGS)
    try:
        status = os.fstat(folder)
        for place, part in enumerate(parts):
            try:
                status = os.stat(part, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                return False, None
            if is_whiteout(status):
                return True, None
            if place == len(parts) - 1:
                break
            if not stat.S_ISDIR(status.st_mode):
                return True, None
            below = os.open(part, FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = below
    finally:
        os.close(folder)
    return False, status
