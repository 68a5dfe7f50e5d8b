"""Atomic and durable writes of small files such as keys, which no operator could restore after a partial write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def put_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write ``data`` to ``path``, replacing an existing file; create its folder (0700) if necessary.

    Raises:
        OSError: the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft(path, data, mode) as draft:
        draft.replace(path)


def publish_file(path: Path, data: bytes, *, mode: int) -> None:
    """Create ``path``.

    Raises:
        FileExistsError: another process created it first.
        OSError: the file cannot be written.
    """
    with _draft(path, data, mode) as draft:
        os.link(draft, path)


@contextmanager
def _draft(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Yield a durable temporary file beside ``path``. Changes of the folder are durable too on exit."""
    fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(data)
            file.flush()
            os.fsync(fd)
        yield draft
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
