"""One place that a command works in, while it is open: how to show it inside, and what has changed in it.

There is no ``.git`` inside, and the change is read from files, never asked of git (see ``difference.py``). Opening and removing
is the business of ``workspaces.py``.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.git.changes import FileChange
from gatewright.workspace.difference import ChangeBounds, LeaveOut, difference, leave_nothing_out
from gatewright.workspace.layers import Layers
from gatewright.workspace.threads import finish

PATH_INSIDE: Final = "/workspace"


@dataclass(frozen=True, slots=True)
class Workspace:
    """``task`` is its folder on the host; ``lower`` are the read-only layers, topmost first; ``overlay`` False: a copy.

    ``planted`` are paths of files that are shown beside the tree's.
    """

    task: Path
    lower: tuple[Path, ...]
    overlay: bool
    bounds: ChangeBounds
    planted: frozenset[bytes] = frozenset()

    @property
    def path_inside(self) -> str:
        """Where the command finds the files; its working directory."""
        return PATH_INSIDE

    @property
    def upper(self) -> Path:
        """What the command writes: the upper layer, or the copy."""
        return self.task / "writable" / "files"

    @property
    def path(self) -> Path | None:
        """The directory of the files on the host; None for an overlay, which only exists inside the sandbox."""
        return None if self.overlay else self.upper

    @property
    def scratch(self) -> Path:
        """An empty directory that goes with the workspace; a home for commands that have no other."""
        return self.task / "scratch"

    @property
    def sources(self) -> tuple[Path, ...]:
        """Host directories that ``mounts`` names, the writable one first."""
        return (self.upper.parent, *(self.lower if self.overlay else ()))

    @property
    def mounts(self) -> tuple[str, ...]:
        """Bubblewrap arguments that put the files, writable, at ``path_inside``."""
        if not self.overlay:
            return ("--bind", str(self.upper), PATH_INSIDE)
        layers = (argument for layer in reversed(self.lower) for argument in ("--overlay-src", str(layer)))
        return (*layers, "--overlay", str(self.upper), str(self.upper.parent / "work"), PATH_INSIDE)

    def has_room(self, place: str) -> bool:
        """See ``WorkingFolder.has_room``."""
        now = Layers((self.upper, *self.lower) if self.overlay else (self.upper,))
        parts = tuple(place.split("/"))
        found = (now.status(parts[:depth]) for depth in range(1, len(parts) + 1))
        return all(status is None or stat.S_ISDIR(status.st_mode) for status in found)

    async def changes(self, leave_out: LeaveOut = leave_nothing_out) -> tuple[FileChange, ...]:
        """What differs now from the tree that the workspace was opened with, sorted by path. Not while a command runs.

        What became of planted files is no change. ``leave_out`` as in ``difference``.
        Raises DeniedError: ``special_file`` for a pipe, a socket or a device, ``change_too_large``.
        """
        found = await finish(
            difference, self.upper, self.lower, hides_all=not self.overlay, bounds=self.bounds, leave_out=leave_out
        )
        return tuple(change for change in found if change.path not in self.planted)
