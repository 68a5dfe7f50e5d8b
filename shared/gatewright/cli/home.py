"""The home folder: where it is, what a new one holds, and that it is the user's own and no part of a repository.

It holds keys and evidence. A cloned repository may bring a ``.gatewright`` of its own, with keys that others know:
such a folder is refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gatewright.cli import settings
from gatewright.cli.git_home import home_at, new_home, point_to
from gatewright.errors import ConfigurationError


def find_home(configured: Path | None, here: Path) -> Path:
    """The home folder for someone who stands in ``here``; it need not exist yet.

    ``configured`` if given; else the nearest one upwards, no further than the top of the repository: in its git directory, or a
    ``.gatewright``; else a new one in the git directory of the repository, or a ``.gatewright`` in ``here``.
    Raises ConfigurationError when it belongs to somebody else or is tracked by git.
    """
    if configured is not None:
        return configured.expanduser().absolute()
    top = find_repository(here)
    # In a repository its top alone counts: a folder further down is the repository's own, whatever it is called.
    folders = (top,) if top is not None else upwards(here)
    home = next((found for folder in folders if (found := home_at(folder)) is not None), None)
    home = home or new_home(top, here)
    if os.path.lexists(home):
        _refuse_foreign(home)
    return home


def find_repository(here: Path) -> Path | None:
    """The top of the git repository that ``here`` lies in, or None."""
    return next((folder for folder in upwards(here) if (folder / ".git").exists()), None)


def upwards(here: Path) -> Iterator[Path]:
    """``here`` and the folders above it, as far up as git would look for a repository."""
    ceilings = settings.git_ceilings()
    for folder in (here, *here.parents):
        yield folder
        if folder.parent in ceilings:
            return


def make_home(home: Path, here: Path | None = None) -> bool:
    """Make the home folder, private and ignored by git; returns whether it was new.

    In the repository of ``here``, ``.gatewright`` is made to lead to it.

    Raises ConfigurationError when it cannot be made.
    """
    try:
        home.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        if not home.is_dir():
            raise ConfigurationError(f"{home} is not a folder") from None
        new = False
    except OSError as error:
        raise ConfigurationError(f"{home} cannot be made: {error}") from error
    else:
        new = True
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="ascii")
    if here is not None and (top := find_repository(here)) is not None:
        point_to(home, top)
    return new


def _refuse_foreign(home: Path) -> None:
    facts = home.lstat()
    if facts.st_uid != os.geteuid() or home.is_symlink():
        raise ConfigurationError(f"{home} is not a folder of yours; set GATEWRIGHT_HOME to one that is", code="home_not_own")
    git_dir = home.parent / ".git"
    if git_dir.exists() and _tracked(git_dir, home):
        raise ConfigurationError(
            f"{home} is part of the repository: its keys and records are whoever's who committed them; "
            "remove it from the repository, or set GATEWRIGHT_HOME",
            code="home_tracked",
        )


def _tracked(git_dir: Path, home: Path) -> bool:
    git = shutil.which("git")
    if git is None:
        raise ConfigurationError("there is no git on PATH", code="git_missing")
    where = (f"--git-dir={git_dir}", f"--work-tree={home.parent}", "-c", "core.fsmonitor=false")
    found = subprocess.run(
        (git, *where, "ls-files", "--", home.name),
        cwd=home.parent,
        env={"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    # A repository that git cannot read proves nothing.
    return found.returncode != 0 or bool(found.stdout)
