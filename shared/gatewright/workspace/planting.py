"""Files added for a command beside those of a hostile tree: a separate layer over the tree, never in it.

Nothing of the tree is written through, replaced or hidden: a path that the tree has, or below one of its files or links, is
refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gatewright.errors import DeniedError
from gatewright.git.modes import FILE
from gatewright.git.paths import display, path_fault
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.layers import Layers
from gatewright.workspace.tree_writer import TreeWriter

NOT_FREE: Final = "place_not_free"
#: Limits of file systems, checked in advance.
_LONGEST_NAME: Final = 255
_LONGEST_PATH: Final = 4000


def plant(layer: Path, lower: Sequence[Path], files: Mapping[bytes, bytes], account: SandboxAccount) -> None:
    """Fill the empty directory ``layer`` with ``files`` by path, to be laid over ``lower`` (topmost first).

    Raises DeniedError: ``unsafe_path`` for a path that no tree may contain, ``place_not_free`` for one that conflicts with
    this tree or with another of ``files``.
    """
    tree = Layers(lower)
    for path in files:
        refuse_unsafe(path)
        parts = tuple(os.fsdecode(path).split("/"))
        for depth in range(1, len(parts)):
            above = tree.status(parts[:depth])
            if above is not None and not stat.S_ISDIR(above.st_mode):
                held = display(b"/".join(path.split(b"/")[:depth]))
                raise DeniedError(f"{display(path)} cannot be put into the tree: {held} is no folder there", code=NOT_FREE)
        if tree.status(parts) is not None:
            raise DeniedError(f"{display(path)} cannot be put into the tree: it has one", code=NOT_FREE)
        if any(path.startswith(other + b"/") for other in files):
            raise DeniedError(f"{display(path)} lies below another file that is put there", code=NOT_FREE)
    with TreeWriter(layer, account) as writer:
        for path in sorted(files):
            writer.write(path, FILE, files[path])


def refuse_unsafe(path: bytes) -> None:
    """Raise DeniedError (``unsafe_path``) for a path that is absolute, has ``..``, is git's own, or is too long."""
    fault = path_fault(path)
    if fault is None and (len(path) > _LONGEST_PATH or any(len(name) > _LONGEST_NAME for name in path.split(b"/"))):
        fault = "is too long"
    if fault is not None:
        raise DeniedError(f"no file can be put at {display(path)}: it {fault}", code="unsafe_path")
