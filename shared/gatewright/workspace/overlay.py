"""A check of overlays by using one: this kernel, this bubblewrap, this file system.

The trial deletes, replaces and adds, and then reads the difference, so that a file system which mounts an overlay but loses
its marks (opaque folders need extended attributes) is detected before a task relies on it.
"""

from __future__ import annotations

from typing import Final

from gatewright.errors import DeniedError, SandboxError
from gatewright.git.changes import FileChange
from gatewright.git.modes import FILE
from gatewright.sandbox.account import SandboxAccount
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.limits import SandboxLimits
from gatewright.workspace.tree_writer import TreeWriter
from gatewright.workspace.workspace import Workspace

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
