"""Shared and exclusive holds on directories, between all processes of a host; they end with their process.

A hold is a file lock on the directory itself. A directory is removed or renamed under an exclusive hold only, so that a
shared hold keeps it in place. Nothing waits in a thread: a refused hold is retried.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from pathlib import Path
from typing import Final

from gatewright.file_locks import lock_folder
from gatewright.workspace.removal import remove_tree

_PAUSE_SECONDS: Final = 0.01


def hold(directory: Path, *, exclusive: bool) -> int | None:
    """A descriptor that holds ``directory`` until it is closed; None when it is not there, or held so that it cannot be."""
    try:
        descriptor = lock_folder(directory, shared=not exclusive)
    except (BlockingIOError, FileNotFoundError):
        return None
    with contextlib.suppress(FileNotFoundError):
        # Between the two calls it may have been renamed and replaced.
        if os.path.samestat(os.fstat(descriptor), directory.stat()):
            return descriptor
    os.close(descriptor)
    return None


async def wait_for_hold(directory: Path) -> int:
    """An exclusive hold on ``directory``, made when it is not there, as soon as no other process has one."""
    while True:
        descriptor = _made_and_held(directory)
        if descriptor is not None:
            return descriptor
        await asyncio.sleep(_PAUSE_SECONDS)


def remove_unless_held(directory: Path) -> None:
    """Remove the directory with its content; do nothing while it is held, or if it is missing. Raises OSError."""
    held = hold(directory, exclusive=True)
    if held is None:
        return
    try:
        leaving = directory.parent / f".leaving-{uuid.uuid4().hex}"
        directory.rename(leaving)
        remove_tree(leaving)
    finally:
        os.close(held)


def longest_unused(root: Path) -> list[Path]:
    """Return the visible entries of ``root``, the least recently used first. Raises OSError."""
    return sorted((place for place in root.iterdir() if not place.name.startswith(".")), key=_used_at)


def _used_at(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _made_and_held(directory: Path) -> int | None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return hold(directory, exclusive=True)
