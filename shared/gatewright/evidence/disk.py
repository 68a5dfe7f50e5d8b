"""What a bundle's writer does to a disk, one step per method: the only calls that a crash can cut short.

A test puts another one in its place, that stops at any step and forgets what was not made durable.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path

READ_ONLY = 0o444
#: From here on one syncfs costs less than so many fsyncs, each of which has the device flush its cache.
FEW = 4
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


class Disk:
    """The file system. Every method raises OSError. What they do outlasts a power cut once ``sync`` has named it."""

    def create(self, path: Path, data: bytes) -> None:
        """Put a new read-only file in the place of whatever file was there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, READ_ONLY)
        except FileExistsError:
            path.unlink()
            fd = os.open(path, flags, READ_ONLY)
        try:
            _write(fd, data)
        finally:
            os.close(fd)

    def link(self, first: Path, path: Path) -> None:
        """Give a file a second name, in the place of whatever file was there; not every file system can."""
        try:
            path.hardlink_to(first)
        except FileExistsError:
            path.unlink()
            path.hardlink_to(first)

    def append(self, path: Path, data: bytes, at: int) -> None:
        """Write ``data`` at offset ``at`` (bytes), which becomes the end of the file first; durable when it returns."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size != at:
                os.ftruncate(fd, at)
            os.lseek(fd, at, os.SEEK_SET)
            _write(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)

    def protect(self, path: Path) -> None:
        """Make a file that was written before read-only."""
        path.chmod(READ_ONLY)

    def sync(self, paths: Sequence[Path]) -> None:
        """Make durable the contents of files and the entries of folders, all of one file system."""
        flush: Callable[[int], None] = os.fsync
        if len(paths) > FEW and _syncfs is not None:
            paths, flush = paths[:1], _flush_file_system
        for path in paths:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                flush(fd)
            finally:
                os.close(fd)

    def make_folder(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file (a link, not what it points at) or an empty folder."""
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _flush_file_system(fd: int) -> None:
    if _syncfs is not None and _syncfs(fd):
        raise OSError(ctypes.get_errno(), "syncfs failed")


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
