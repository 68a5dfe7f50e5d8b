"""The home folder of a repository lies in its common git directory, and ``.gatewright`` in the work tree is a link to it.

There ``git clean``, ``git stash`` and a switch of branches do not reach it, all work trees of the repository share it, it moves
with the repository, and no clone brings one along. The link is a convenience: it is made again when it is gone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: The name in the git directory.
NAME = "gatewright"
#: The name of the link, and of a home folder outside of any repository.
POINTER = ".gatewright"


def common_git_directory(top: Path) -> Path | None:
    """The git directory that all work trees of the repository share, for the top of one of them; None where there is none.

    Only files are read; git is not asked.
    """
    place = top / ".git"
    if place.is_dir():
        return place
    try:
        found = place.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        own = Path(os.path.normpath(top / found))
        common = own / "commondir"
        shared = Path(os.path.normpath(own / common.read_text("utf-8", "surrogateescape").strip())) if common.is_file() else own
    except (OSError, ValueError):
        return None
    return shared if shared.is_dir() else None


def home_at(folder: Path) -> Path | None:
    """The home folder that ``folder`` has: its repository's own, else a ``.gatewright`` that lies or leads there."""
    common, place = common_git_directory(folder), folder / POINTER
    if common is not None and os.path.lexists(common / NAME):
        return common / NAME
    return place if place.is_dir() else None


def new_home(top: Path | None, here: Path) -> Path:
    """Where a home folder is made for a user who stands in ``here``, in the repository of ``top`` if there is one."""
    common = common_git_directory(top) if top is not None else None
    return (top or here) / POINTER if common is None else common / NAME


def point_to(home: Path, top: Path) -> None:
    """Let ``.gatewright`` at the top of a work tree lead to its repository's home, unseen by git.

    Nothing is done for another home, or where the name is taken. That it cannot be done harms nothing.
    """
    common, pointer = common_git_directory(top), top / POINTER
    if common is None or home != common / NAME:
        return
    with contextlib.suppress(OSError):
        if pointer.is_symlink() and not pointer.exists() and pointer.readlink().name == NAME:
            # The repository has moved, or its work tree.
            pointer.unlink()
        if not os.path.lexists(pointer):
            _exclude(common)
            pointer.symlink_to(os.path.relpath(home, top), target_is_directory=True)


def _exclude(common: Path) -> None:
    """git passes over the link: a pattern for folders would not cover one."""
    listed, line = common / "info" / "exclude", f"/{POINTER}"
    known = listed.read_text("utf-8", "surrogateescape") if listed.exists() else ""
    if line not in known.splitlines():
        listed.parent.mkdir(exist_ok=True)
        with listed.open("a", encoding="utf-8") as file:
            file.write(("\n" if known and not known.endswith("\n") else "") + line + "\n")
