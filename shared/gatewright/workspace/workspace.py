"""The working folder of a command while it is open: its mounts inside, and its changes.

A ``.git`` inside is a throwaway copy, which no git of ours ever reads: the change is read from files (``difference.py``).
``workspaces.py`` opens and removes workspaces.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gatewright.git.changes import FileChange
from gatewright.workspace.difference import GIT_FOLDER, ChangeBounds, LeaveOut, difference, leave_nothing_out
from gatewright.workspace.layers import Layers
from gatewright.workspace.threads import finish

PATH_INSIDE: Final = "/workspace"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace. ``task`` is its folder on the host; ``lower`` are the read-only layers, topmost first.

    Without ``overlay`` it is a copy. ``planted`` are paths of files added to the tree's. ``history`` is the initial content
    of a ``.git`` inside; writes to it go to separate folders and are ignored.
    """

    task: Path
    lower: tuple[Path, ...]
    overlay: bool
    bounds: ChangeBounds
    planted: frozenset[bytes] = frozenset()
    history: Path | None = None

    @property
    def path_inside(self) -> str:
        """Return the path of the files inside; the working directory."""
        return PATH_INSIDE

    @property
    def upper(self) -> Path:
        """Return the folder of the command's writes: the upper layer, or the copy."""
        return self.task / "writable" / "files"

    @property
    def path(self) -> Path | None:
        """The directory of the files on the host; None for an overlay, which only exists inside the sandbox."""
        return None if self.overlay else self.upper

    @property
    def scratch(self) -> Path:
        """Return an empty directory that is removed with the workspace; a home for commands without one."""
        return self.task / "scratch"

    @property
    def sources(self) -> tuple[Path, ...]:
        """Host directories that ``mounts`` names, the writable one first."""
        history = (self.history,) if self.history is not None else ()
        return (self.upper.parent, *((*self.lower, *history) if self.overlay else ()))

    @property
    def written_history(self) -> Path:
        """Return the folder of writes below ``.git``: an upper layer, or the copy."""
        return self.upper.parent / "history"

    @property
    def mounts(self) -> tuple[str, ...]:
        """Bubblewrap arguments that put the files, writable, at ``path_inside``."""
        git = f"{PATH_INSIDE}/{GIT_FOLDER}"
        if not self.overlay:
            copied = ("--bind", str(self.written_history), git) if self.history is not None else ()
            return ("--bind", str(self.upper), PATH_INSIDE, *copied)
        layers = (argument for layer in reversed(self.lower) for argument in ("--overlay-src", str(layer)))
        files = (*layers, "--overlay", str(self.upper), str(self.upper.parent / "work"), PATH_INSIDE)
        if self.history is None:
            return files
        work = str(self.upper.parent / "history-work")
        return (*files, "--overlay-src", str(self.history), "--overlay", str(self.written_history), work, git)

    def has_room(self, place: str) -> bool:
        """See ``WorkingFolder.has_room``."""
        now = Layers((self.upper, *self.lower) if self.overlay else (self.upper,))
        parts = tuple(place.split("/"))
        found = (now.status(parts[:depth]) for depth in range(1, len(parts) + 1))
        return all(status is None or stat.S_ISDIR(status.st_mode) for status in found)

    def had(self, path: bytes) -> bool:
        """Return whether the workspace had a file at ``path`` when it was opened."""
        return Layers(self.lower).status(tuple(os.fsdecode(path).split("/"))) is not None

    def written(self, path: str) -> tuple[int, ...]:
        """Return what identifies a version of a file in the folder of the command's writes; empty without one."""
        try:
            status = Layers((self.upper,)).status(tuple(path.split("/")))
        except OSError:
            return ()
        return () if status is None else (status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)

    def read_written(self, path: str, most: int) -> bytes:
        """Return the content of such a file. OSError, also if it is not a regular file of at most ``most`` bytes."""
        with Layers((self.upper,)).opened(tuple(path.split("/"))) as file, os.fdopen(os.dup(file), "rb") as stream:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode) or status.st_size > most:
                raise OSError(f"it is not a regular file of at most {most >> 20} MiB")
            return stream.read(most)

    async def changes(self, leave_out: LeaveOut = leave_nothing_out) -> tuple[FileChange, ...]:
        """Return the changes since the workspace was opened, sorted by path. Not while a command runs.

        Changes of planted files and of the history are excluded. ``leave_out`` as in ``difference``. Raises DeniedError:
        ``special_file`` for a pipe, a socket or a device, ``change_too_large``.
        """
        asked = leave_out if self.history is None else _but_history(leave_out)
        found = await finish(
            difference, self.upper, self.lower, hides_all=not self.overlay, bounds=self.bounds, leave_out=asked
        )
        return tuple(change for change in found if change.path not in self.planted)


def _but_history(leave_out: LeaveOut) -> LeaveOut:
    """Leave out the workspace's own ``.git`` without calling ``leave_out``."""
    git = GIT_FOLDER.encode()
    return lambda path: path == git or leave_out(path)
