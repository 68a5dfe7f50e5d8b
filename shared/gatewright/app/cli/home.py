"""The home folder: where it is, what a new one holds, and that it is the user's own and no part of a repository.

It holds keys, evidence, identities and holds. A cloned repository may bring a ``.gatewright`` of its own, at its top or in any
folder, with keys that others know: such a folder is never used.

The home folder of a repository lies in its common git directory. There ``git clean``, ``git stash`` and a switch of branches do
not reach it, all work trees of the repository share it, it moves with the repository, and no clone brings one along. Nothing is
written into a work tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from gatewright.app.cli import settings
from gatewright.errors import ConfigurationError

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


def find_home(configured: Path | None, here: Path) -> Path:
    """The home folder for a caller who stands in ``here``; it need not exist yet.

    1. ``configured``, if given  2. in a repository: that of its git directory, or the ``.gatewright`` at its top, and no
    other, whatever a subfolder holds; else a new one in the git directory  3. elsewhere the nearest ``.gatewright`` upwards,
    else a new one in ``here``. Raises ConfigurationError when it belongs to another user (``home_not_own``; one that was
    configured may), or when git tracks any file of it (``home_tracked``).
    """
    if configured is not None:
        home = configured.expanduser().absolute()
    else:
        top = find_repository(here)
        folders = (top,) if top is not None else upwards(here)
        home = next((found for folder in folders if (found := home_at(folder)) is not None), None) or new_home(top, here)
        if os.path.lexists(home):
            _refuse_strange(home)
    if (tracking := tracked_by(home)) is not None:
        raise ConfigurationError(
            f"{home} is part of the repository {tracking}: its keys, records and rules are those of its committers, and none "
            "of them is trusted; remove the folder and its files from the repository, or set GATEWRIGHT_HOME to another folder",
            code="home_tracked",
        )
    return home


def own_home() -> Path | None:
    """The home folder of the system that runs, or would be started, on this host; None where a bus was named.

    Raises ConfigurationError as ``find_home`` does.
    """
    loaded = settings.load()
    return None if loaded.nats_url else find_home(loaded.home, Path.cwd())


def find_repository(here: Path) -> Path | None:
    """The top of the git repository that ``here`` lies in, or None.

    A bare repository counts where no work tree is around it: one that lies in a work tree may have come with a clone.
    """
    around = tuple(upwards(here))
    top = next((folder for folder in around if _is_repository(folder)), None)
    return top or next((folder for folder in around if folder.name != ".git" and is_bare(folder)), None)


def tracked_by(path: Path) -> Path | None:
    """The repository that tracks ``path`` or any file below it; None where none does.

    Every repository around it is asked, not only the innermost: each of them could have brought it along.
    """
    for place in dict.fromkeys((path, path.resolve())):
        for top in filter(_is_repository, (place, *place.parents)):
            if _is_tracked(top, place):
                return top
    return None


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


def _is_repository(folder: Path) -> bool:
    """A stray ``.git`` that holds no repository is none."""
    git_dir = folder / ".git"
    return git_dir.is_file() or (git_dir / "HEAD").exists()


def _refuse_strange(home: Path) -> None:
    if home.lstat().st_uid != os.geteuid() or home.is_symlink():
        raise ConfigurationError(f"{home} is not a folder of yours; set GATEWRIGHT_HOME to one that is", code="home_not_own")


def _is_tracked(top: Path, home: Path) -> bool:
    git = shutil.which("git")
    if git is None:
        raise ConfigurationError("there is no git on PATH", code="git_missing")
    where = (f"--git-dir={top / '.git'}", f"--work-tree={top}", "--literal-pathspecs", "-c", "core.fsmonitor=false")
    found = subprocess.run(
        (git, *where, "ls-files", "--", str(home.relative_to(top))),
        cwd=top,
        env={"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    # A repository that git cannot read proves nothing.
    return found.returncode != 0 or bool(found.stdout)
