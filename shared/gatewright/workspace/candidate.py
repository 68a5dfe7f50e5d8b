"""The layer that turns a baseline into a candidate tree: changed files, and whiteouts for deleted ones.

Its cost is that of the difference. Nothing is written into the baseline.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gatewright.errors import DeniedError, SandboxError
from gatewright.git.changes import FileChange, TreeChange
from gatewright.git.linked.lfs import StoredObject
from gatewright.git.modes import FILE, SUBMODULE
from gatewright.git.paths import folders_above
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.limits import SandboxLimits
from gatewright.workspace.layers import entered, is_whiteout
from gatewright.workspace.tree_writer import TreeWriter
from gatewright.workspace.workspace import Workspace


def write_layer(
    layer: Path,
    baseline: Path,
    changes: Sequence[TreeChange],
    contents: Mapping[str, bytes | StoredObject],
    account: SandboxAccount,
) -> None:
    """Fill the empty directory ``layer`` so that over ``baseline`` it shows the tree that ``changes`` lead to.

    ``contents`` has the new contents by id. Raises DeniedError, as ``TreeWriter.write``.
    """
    written = [change for change in changes if change.status != "D"]
    files = {change.path for change in written if change.new_mode != SUBMODULE}
    # A file that took the place of a folder hides all that was in it.
    gone = [change.path for change in changes if change.status == "D" and not files.intersection(folders_above(change.path))]
    with TreeWriter(layer, account) as writer:
        for change in written:
            writer.write(change.path, change.new_mode, contents.get(change.new_id, b""))
        for path in gone:
            writer.whiteout(path)
        for folder in sorted({above for path in gone for above in folders_above(path)}, key=lambda path: -path.count(b"/")):
            if _is_emptied(layer, baseline, folder):
                writer.forget()
                _remove_whiteouts(layer, folder)
                writer.whiteout(folder)


def _path_parts(path: bytes) -> tuple[str, ...]:
    return tuple(os.fsdecode(path).split("/"))


def _is_emptied(layer: Path, baseline: Path, folder: bytes) -> bool:
    """Return whether the layer leaves a folder empty: git has no empty folders, so it must not be visible either."""
    with entered(layer, _path_parts(folder)) as above, os.scandir(above) as entries:
        statuses = {entry.name: entry.stat(follow_symlinks=False) for entry in entries}
    if not all(map(is_whiteout, statuses.values())):
        return False
    with entered(baseline, _path_parts(folder)) as below:
        return {*_entry_names(below)} <= statuses.keys()


def _entry_names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]


def _remove_whiteouts(layer: Path, folder: bytes) -> None:
    *above, name = _path_parts(folder)
    with entered(layer, (*above, name)) as inside:
        for entry in _entry_names(inside):
            os.unlink(entry, dir_fd=inside)
    with entered(layer, tuple(above)) as outside:
        os.rmdir(name, dir_fd=outside)


# A check of overlays by using one: this kernel, this bubblewrap, this file system.
# The trial deletes, replaces and adds, and then reads the difference, so that a file system which mounts an overlay but loses
# its marks (opaque folders need extended attributes) is detected before a task relies on it.
_FILES: Final = (b"changed", b"deleted", b"folder/gone")
_SCRIPT: Final = "echo new >changed && rm deleted && rm -r folder && mkdir folder && echo new >folder/added"
_EXPECTED: Final = (
    FileChange(b"changed", FILE, b"new\n"),
    FileChange(b"deleted", None),
    FileChange(b"folder/added", FILE, b"new\n"),
    FileChange(b"folder/gone", None),
)


async def overlay_fault(workspace: Workspace, account: SandboxAccount) -> str:
    """Why overlays cannot be used, empty when they can; ``workspace`` is one made for this, with one empty layer."""
    try:
        if not find_bwrap().overlay:
            return "this bubblewrap is too old to mount overlays"
        with TreeWriter(workspace.lower[0], account) as writer:
            for path in _FILES:
                writer.write(path, FILE, b"old\n")
        limits = SandboxLimits(wall_seconds=20)
        command = ("/bin/sh", "-c", _SCRIPT)
        completed = await BubblewrapSandbox(account).run(command, workspace=workspace, prefix=None, limits=limits)
        if completed.exit_code:
            return f"a trial command failed in an overlay: {completed.stderr.decode('utf-8', 'replace').strip()}"
        changes = await workspace.changes()
    except (SandboxError, DeniedError) as error:
        return str(error)
    return "" if changes == _EXPECTED else "an overlay here does not keep what is written in it"
