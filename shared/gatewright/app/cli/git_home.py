"""The home folder of a repository lies in its common git directory.

There ``git clean``, ``git stash`` and a switch of branches do not reach it, all work trees of the repository share it, it moves
with the repository, and no clone brings one along. Nothing is written into a work tree.
"""

from __future__ import annotations

import os
from pathlib import Path

#: The name in the git directory.
NAME = "gatewright"
#: The name of a home folder outside of any repository. Versions before made it in work trees, as a folder or a link.
OUTSIDE = ".gatewright"


def common_git_directory(top: Path) -> Path | None:
    """The git directory that all work trees of the repository share; None where there is none.

    ``top`` is the top of one of them, or a bare repository. Only files are read; git is not asked.
    """
    place = top / ".git"
    if place.is_dir():
        return place
    if is_bare(top):
        return top
    try:
        found = place.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        own = Path(os.path.normpath(top / found))
        common = own / "commondir"
        shared = Path(os.path.normpath(own / common.read_text("utf-8", "surrogateescape").strip())) if common.is_file() else own
    except (OSError, ValueError):
        return None
    return shared if shared.is_dir() else None


def is_bare(folder: Path) -> bool:
    """Whether ``folder`` itself is laid out as a git directory is."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def home_at(folder: Path) -> Path | None:
    """The home folder that ``folder`` has: its repository's own, else a ``.gatewright`` that lies or leads there."""
    common, place = common_git_directory(folder), folder / OUTSIDE
    if common is not None and os.path.lexists(common / NAME):
        return common / NAME
    return place if place.is_dir() else None


def new_home(top: Path | None, here: Path) -> Path:
    """Where a home folder is made for a user who stands in ``here``, in the repository of ``top`` if there is one."""
    common = common_git_directory(top) if top is not None else None
    return (top or here) / OUTSIDE if common is None else common / NAME
