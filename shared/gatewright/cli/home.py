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
from gatewright.errors import ConfigurationError

HOME_NAME = ".gatewright"


def find_home(configured: Path | None, here: Path) -> Path:
    """The home folder for someone who stands in ``here``; it need not exist yet.

    ``configured`` if given; else the nearest ``.gatewright`` upwards; else one at the top of the repository; else in ``here``.
    Raises ConfigurationError when it belongs to somebody else or is tracked by git.
    """
    if configured is not None:
        return configured.expanduser().absolute()
    top = find_repository(here)
    home = next((folder / HOME_NAME for folder in upwards(here) if (folder / HOME_NAME).is_dir()), None)
    home = home or (top or here) / HOME_NAME
    if home.exists():
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


def make_home(home: Path) -> bool:
    """Make the home folder, private and ignored by git; returns whether it was new.

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
