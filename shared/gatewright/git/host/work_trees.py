"""The work trees of a repository on this host, and what is checked out there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gatewright.git.command import GitCommand

#: The most bytes that git may answer.
_LIMIT: Final = 64 << 20
_END: Final = "\0"


def checked_out_at(git_dir: Path, ref: str) -> Path | None:
    """The work tree, the main one or a linked one, in which the branch of the full name ``ref`` is checked out."""
    return checked_out_branches(git_dir).get(ref)


def checked_out_branches(git_dir: Path) -> dict[str, Path]:
    """The work trees, the main one and linked ones, by the full name of the branch that is checked out there."""
    output = GitCommand(git_dir).execute("worktree", "list", "--porcelain", "-z", limit=_LIMIT)
    found: dict[str, Path] = {}
    for block in output.decode("utf-8", "surrogateescape").split(_END + _END):
        lines = block.split(_END)
        branch = next((line.removeprefix("branch ") for line in lines if line.startswith("branch ")), None)
        if branch is not None and "bare" not in lines:
            found.setdefault(branch, Path(lines[0].removeprefix("worktree ")))
    return found
