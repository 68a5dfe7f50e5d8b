"""Copies what a stack of layers shows into a directory of its own, for hosts without overlays.

Copies, never hard links: a command could write through a link into the baseline that all tasks share.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gatewright.git.modes import EXECUTABLE, FILE, SYMLINK
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.layers import Layers
from gatewright.workspace.tree_writer import TreeWriter

_CHUNK = 1 << 20


def copy_stack(lower: tuple[Path, ...], target: Path, account: SandboxAccount) -> None:
    """Fill the empty directory ``target`` with all files that ``lower`` (topmost first) shows; they belong to ``account``."""
    layers = Layers(lower)
    with TreeWriter(target, account) as writer:
        for parts in sorted(layers.files_below(())):
            status = layers.status(parts)
            if status is None:
                continue
            path = os.fsencode("/".join(parts))
            if stat.S_ISLNK(status.st_mode):
                writer.write(path, SYMLINK, layers.target(parts))
            else:
                with layers.opened(parts) as file:
                    mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
                    writer.write(path, mode, _read(file))


def _read(file: int) -> bytes:
    parts = []
    while part := os.read(file, _CHUNK):
        parts.append(part)
    return b"".join(parts)
