"""Bytecode of a tree's sources, laid over it as Python's own caches; none for a source that differs.

It was compiled from the baseline's files. Python itself checks whether it matches the source beside it; that is not relied
on.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.git.modes import FILE
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.layers import Layers
from gatewright.workspace.tree_writer import TreeWriter

CACHE: Final = "__pycache__"
_BY_TIME: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Bytecode:
    """The compiled form of one source, and its file name in ``__pycache__``."""

    name: str
    data: bytes


def lay_bytecode(
    layer: Path, lower: Sequence[Path], compiled: Mapping[bytes, Bytecode], changed: Collection[bytes], account: SandboxAccount
) -> None:
    """Fill the empty directory ``layer`` with the bytecode of the sources in ``lower`` (topmost first).

    ``compiled`` is by the path of the source; paths in ``changed`` are skipped, and folders where the tree has a
    ``__pycache__``.
    """
    tree = Layers(lower)
    taken: dict[bytes, bool] = {}
    with TreeWriter(layer, account) as writer:
        for path in sorted(compiled.keys() - set(changed)):
            above = path.rpartition(b"/")[0]
            cache = b"/".join(filter(None, (above, CACHE.encode())))
            if cache not in taken:
                taken[cache] = tree.status(_path_parts(cache)) is not None
            source = None if taken[cache] else tree.status(_path_parts(path))
            if source is not None and stat.S_ISREG(source.st_mode):
                made = compiled[path]
                writer.write(cache + b"/" + made.name.encode(), FILE, _as_of(source, made.data))


def _as_of(source: os.stat_result, data: bytes) -> bytes:
    """Return ``data`` with the source's time on this host, if it is validated by time."""
    if data[4:8] != _BY_TIME:
        return data
    return data[:8] + (int(source.st_mtime) & 0xFFFFFFFF).to_bytes(4, "little") + data[12:]


def _path_parts(path: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(path).split("/"))
