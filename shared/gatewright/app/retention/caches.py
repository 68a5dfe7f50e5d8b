"""Prepared environments and repository mirrors, which a home folder keeps as caches: which to remove, and how.

Both are made again on demand. Caches that an open run may need stay: nothing is removed while a stack runs in the home. An
unpacked image stays as well, because only a person can unpack it again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from gatewright.app.environments.plan import lock_of, remove_environment
from gatewright.app.stack.state import exclusive
from gatewright.environment_state import MADE
from gatewright.file_locks import lock_file
from gatewright.git.mirror_room import last_use, origin_of, remove_mirror, size_of
from gatewright.sandbox.environments import read_record
from gatewright.sandbox.images import IMAGE_RECORD

CacheKind = Literal["environment", "mirror", "image"]
_MIRRORS = "*/mirrors/*.git"


@dataclass(frozen=True, slots=True)
class Cache:
    """One folder: ``source`` is what it was made from, ``unfinished`` that its creation was interrupted; ``size`` in bytes."""

    kind: CacheKind
    path: Path
    source: str
    size: int
    last_used: datetime
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class CacheItem:
    """The planned action for one cache, with the reason."""

    cache: Cache
    action: Literal["keep", "remove"]
    why: str


def find_caches(home: Path) -> tuple[Cache, ...]:
    """Return all environments and mirrors of ``home``, the largest first. Reads every folder of them. Raises OSError."""
    found = (*_environments(home / MADE), *_mirrors(home))
    return tuple(sorted(found, key=lambda each: (-each.size, each.path)))


def plan_caches(caches: Sequence[Cache], days: float, now: datetime, *, stack_runs: bool) -> tuple[CacheItem, ...]:
    """Return one item per cache, in order: those unused for ``days`` are removed. Pure."""
    items = []
    for cache in caches:
        age = (now - cache.last_used).total_seconds() / 86400
        if cache.kind == "image":
            items.append(CacheItem(cache, "keep", "an image that a person unpacked"))
        elif stack_runs:
            items.append(CacheItem(cache, "keep", "a stack runs here: `gatewright down` first"))
        elif cache.unfinished:
            items.append(CacheItem(cache, "remove", "its making was cut short"))
        elif age < days:
            items.append(CacheItem(cache, "keep", f"used {age:.1f} days ago; kept for {days:g}"))
        else:
            items.append(CacheItem(cache, "remove", f"not used for {age:.1f} days; kept for {days:g}"))
    return tuple(items)


def remove_caches(home: Path, items: Sequence[CacheItem]) -> tuple[Cache, ...]:
    """Remove the caches of the plan; return those removed. No stack can start meanwhile.

    Raises UnavailableError (``home_in_use``) when one runs, OSError.
    """
    going = [item.cache for item in items if item.action == "remove"]
    if not going:
        return ()
    with exclusive(home):
        return tuple(cache for cache in going if _remove(cache))


def _remove(cache: Cache) -> bool:
    """Remove the cache unless its maker or another process uses it; return whether it is gone."""
    if cache.kind == "mirror":
        return remove_mirror(cache.path)
    try:
        held = lock_file(lock_of(cache.path))
    except BlockingIOError:
        return False
    # The lock file stays, because another process may wait for it. Once it is empty, a partial environment is invalid.
    try:
        os.ftruncate(held, 0)
        remove_environment(cache.path)
    finally:
        os.close(held)
    return True


def _environments(folder: Path) -> Iterator[Cache]:
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.is_symlink() or not path.is_dir() or path.name.startswith("."):
            continue  # an image that is being unpacked has a name with a dot
        lock, record = lock_of(path), read_record(path)
        image = (path / IMAGE_RECORD).is_file()
        used = _moment((lock if lock.exists() else path).stat().st_mtime)
        source = next(iter(record.sources), "no package") if record is not None else "nothing that was finished"
        name = "a container image" if image else f"{record.ecosystem}: {source}" if record is not None else source
        yield Cache("image" if image else "environment", path, name, _own_size(path), used, record is None and not image)


def _own_size(path: Path) -> int:
    """Bytes of all files below a folder; environments with the same packages share files, each of which counts once in all."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                facts = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - ten thousands of them
                total += facts.st_size // facts.st_nlink
    return total


def _mirrors(home: Path) -> Iterator[Cache]:
    for path in sorted(home.glob(_MIRRORS)):
        yield Cache("mirror", path, origin_of(path), size_of(path), _moment(last_use(path)))


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
