"""Which tests a tree has, and how they ended: remembered by tree, command and environment, in the test runner's state.

What files of tests took to load is kept in the same form, as ``path TAB milliseconds``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gatewright.ecosystems.records import Table, read_table, write_table
from gatewright.version import __version__

#: Tables that are kept, and bytes of one.
_MOST: Final = 512
_LARGEST: Final = 64 * 1024 * 1024


def key_of(tree: str, argv: Sequence[str], environment: str, kind: str = "outcomes") -> str:
    """What a table of this kind depends on: a digest."""
    return hashlib.sha256(json.dumps([__version__, kind, tree, list(argv), environment]).encode()).hexdigest()


class Tables:
    """Below ``folder``, which is made when the first one is kept; without one nothing is remembered."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def find(self, key: str) -> dict[str, str] | None:
        """The table that was kept under ``key``; None when there is none that can be read."""
        return None if self._folder is None else await asyncio.to_thread(_read_table, self._folder / key)

    async def keep(self, key: str, table: Table) -> None:
        """Remember ``table``, and forget the ones that were used longest ago. A full disk keeps nothing."""
        if self._folder is not None:
            await asyncio.to_thread(_write_table, self._folder, key, table)


def _read_table(place: Path) -> dict[str, str] | None:
    try:
        table = read_table(place.read_bytes())
        os.utime(place)
    except (OSError, UnicodeDecodeError):
        return None
    return table


def _write_table(folder: Path, key: str, table: Table) -> None:
    data = write_table(table)
    if len(data) > _LARGEST:
        return
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = folder / f".{uuid.uuid4().hex}"
        new.write_bytes(data)
        new.replace(folder / key)
        kept = sorted((place for place in folder.iterdir()), key=lambda place: place.stat().st_mtime_ns)
        for place in kept[:-_MOST]:
            place.unlink(missing_ok=True)
    except OSError:
        return
