"""Which tests a tree has, and how they ended: remembered by tree, command and environment, in the test runner's state.

A table is text, one ``id TAB outcome`` a line, sorted; the outcome is empty for a test that was collected and not run. What
files of tests took to load is kept in the same form, as ``path TAB milliseconds``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gatewright.ecosystems.records import one_line
from gatewright.version import __version__

Table = Mapping[str, str]

#: Tables that are kept, and bytes of one.
_MOST: Final = 512
_LARGEST: Final = 64 * 1024 * 1024


def write_table(table: Table) -> bytes:
    """``table`` as it is stored."""
    lines = sorted(f"{one_line(each)}\t{outcome}\n" for each, outcome in table.items())
    return "".join(lines).encode("utf-8", "backslashreplace")


def read_table(data: bytes) -> dict[str, str]:
    """What ``write_table`` has made. Raises UnicodeDecodeError."""
    return {each: outcome for line in data.decode().split("\n") for each, tab, outcome in (line.rpartition("\t"),) if tab}


def key_of(tree: str, argv: Sequence[str], environment: str, kind: str = "outcomes") -> str:
    """What a table of this kind depends on: a digest."""
    return hashlib.sha256(json.dumps([__version__, kind, tree, list(argv), environment]).encode()).hexdigest()


class Tables:
    """Below ``folder``, which is made when the first one is kept; without one nothing is remembered."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def find(self, key: str) -> dict[str, str] | None:
        """The table that was kept under ``key``; None when there is none that can be read."""
        return None if self._folder is None else await asyncio.to_thread(_read, self._folder / key)

    async def keep(self, key: str, table: Table) -> None:
        """Remember ``table``, and forget the ones that were used longest ago. A full disk keeps nothing."""
        if self._folder is not None:
            await asyncio.to_thread(_write, self._folder, key, table)


def _read(place: Path) -> dict[str, str] | None:
    try:
        table = read_table(place.read_bytes())
        os.utime(place)
    except (OSError, UnicodeDecodeError):
        return None
    return table


def _write(folder: Path, key: str, table: Table) -> None:
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
