"""The disk budget of all mirrors below one folder, and the choice of mirrors to remove.

A mirror is in use while any process of this host has it open, which holds a shared lock on a file beside it. A mirror in
use is never removed, nor one with a commit that an open run starts from; of the others, the least recently opened is
removed first. A removed mirror is fetched again on demand.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.errors import GitError
from gatewright.file_locks import lock_file

#: Default bytes that all copies of repositories may take together.
MIRROR_BYTES: Final = 20 << 30
#: Bytes without which a fetch is not begun.
LEAST: Final = 1 << 20
#: Seconds for which an opening waits for a removal.
_PATIENCE: Final = 60.0
#: The file of a mirror with the address it was made for. Addresses with a password are refused.
ORIGIN: Final = Path("gate/origin")
UNKNOWN_ORIGIN: Final = "an unknown repository"
_LONGEST_ADDRESS: Final = 1000
_KEEP: Final = Path("refs/gate/keep")


def nothing_needed() -> Collection[str]:
    """Return no commits: for roles whose tasks fetch what they need and end soon."""
    return ()


def use(path: Path) -> int:
    """A descriptor that keeps the mirror ``path`` from being removed until it is closed. GitError (``mirror_busy``)."""
    try:
        descriptor = lock_file(_lock_of(path), shared=True, seconds=_PATIENCE)
    except BlockingIOError as error:
        raise GitError(f"another process removes {path.name}", code="mirror_busy") from error
    return descriptor


def touch(path: Path) -> None:
    """The mirror ``path``, which is in use, was wanted now."""
    os.utime(_lock_of(path))


@contextlib.contextmanager
def used(path: Path) -> Iterator[None]:
    """Mark the mirror as in use during a block."""
    descriptor = use(path)
    try:
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class MirrorRoom:
    """The mirrors below ``root`` take ``most`` bytes; None: as many as there are. ``needed``: where open runs start from."""

    root: Path
    most: int | None = None
    needed: Callable[[], Collection[str]] = nothing_needed

    def left(self) -> int | None:
        """The bytes that are left, once what is too much is removed. GitError (``mirrors_full``) where that is not enough."""
        if self.most is None:
            return None
        taken = self.make()
        if self.most - taken < LEAST:
            words = f"the mirrors below {self.root} take {taken} bytes of {self.most}, and all of them are in use"
            raise GitError(f"{words}: raise GATEWRIGHT_MIRROR_BYTES, or wait for the runs", code="mirrors_full")
        return self.most - taken

    def make(self) -> int:
        """Remove what is too much, the longest unused first; how many bytes are taken then. Blocks."""
        sizes = {path: size_of(path) for path in self.root.glob("*.git")}
        taken = sum(sizes.values())
        if self.most is None or taken <= self.most - LEAST:
            return taken
        needed = frozenset(self.needed())
        for path in sorted(sizes, key=last_use):
            if taken <= self.most - LEAST:
                break
            if not any((path / _KEEP / commit).exists() for commit in needed) and remove_mirror(path):
                taken -= sizes[path]
        return taken


def remove_mirror(path: Path) -> bool:
    """Remove the mirror unless another process has it open; return whether it is gone."""
    try:
        descriptor = lock_file(_lock_of(path))
    except BlockingIOError:
        return False
    # A mirror of half its files would be taken for a whole one; what is left of a name that begins like this is removed later.
    doomed = path.with_name(f"new-{uuid.uuid4().hex}")
    try:
        path.rename(doomed)
    except FileNotFoundError:
        return True
    finally:
        os.close(descriptor)
    shutil.rmtree(doomed, ignore_errors=True)
    return True


def _lock_of(path: Path) -> Path:
    return path.with_suffix(".use")


def last_use(path: Path) -> float:
    """Return when the mirror ``path`` was last opened, in seconds since 1970; 0 if unknown."""
    try:
        return _lock_of(path).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def origin_of(path: Path) -> str:
    """The address of the repository that the mirror ``path`` is of, for people."""
    try:
        return (path / ORIGIN).read_text("utf-8", "replace")[:_LONGEST_ADDRESS] or UNKNOWN_ORIGIN
    except OSError:
        return UNKNOWN_ORIGIN


def size_of(path: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - millions of them
    return total
