"""Small files that are there whole and lasting, or not at all: keys, whose loss or half of which no operator could mend."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def put_file(path: Path, data: bytes, *, mode: int) -> None:
    """Put ``data`` in the place of whatever file ``path`` was, making its folder (0700) if need be. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _draft(path, data, mode) as draft:
        draft.replace(path)


def publish_file(path: Path, data: bytes, *, mode: int) -> None:
    """Create ``path``. Raises FileExistsError when another one was first, OSError."""
    with _draft(path, data, mode) as draft:
        os.link(draft, path)


@contextmanager
def _draft(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A file beside ``path``, durable, that is gone afterwards; what became of the folder is durable too."""
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
    """Make durable which files are in a folder."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
