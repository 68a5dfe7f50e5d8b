"""Disk operations of the bundle writer, one step per method: the only calls that a crash can interrupt.

A test replaces this class with one that stops at any step and loses what was not made durable.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path

READ_ONLY = 0o444
#: From this number of files, one syncfs costs less than one fsync each, since every fsync flushes the device's cache.
FEW = 4
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


class Disk:
    """The file system.

    Every method raises OSError. Results survive a power failure once ``sync`` has been called with their paths.
    """

    def create(self, path: Path, data: bytes) -> None:
        """Create a read-only file, replacing an existing file."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(path, flags, READ_ONLY)
        except FileExistsError:
            path.unlink()
            fd = os.open(path, flags, READ_ONLY)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)

    def link(self, first: Path, path: Path) -> None:
        """Give a file a second name, replacing an existing file; not every file system supports this."""
        try:
            path.hardlink_to(first)
        except FileExistsError:
            path.unlink()
            path.hardlink_to(first)

    def append(self, path: Path, data: bytes, at: int) -> None:
        """Truncate the file to ``at`` bytes and append ``data``; durable on return."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(fd).st_size != at:
                os.ftruncate(fd, at)
            os.lseek(fd, at, os.SEEK_SET)
            _write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)

    def protect(self, path: Path) -> None:
        """Make an existing file read-only."""
        path.chmod(READ_ONLY)

    def sync(self, paths: Sequence[Path]) -> None:
        """Make the contents of files and the entries of folders durable; all must be on one file system."""
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
        """Remove a file (a link, not its target) or an empty folder."""
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink()


def _flush_file_system(fd: int) -> None:
    if _syncfs is not None and _syncfs(fd):
        raise OSError(ctypes.get_errno(), "syncfs failed")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
