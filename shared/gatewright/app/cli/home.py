"""The home folder: its location, the content of a new one, and the check that it belongs to the user and to no repository.

It holds keys, evidence, identities and holds. A cloned repository may contain its own ``.gatewright``, at its top or in any
folder, with keys that others know. Such a folder is never used.

The home folder of a repository is in its common git directory. ``git clean``, ``git stash`` and a switch of branches do not
affect it there. All work trees of the repository share it, it moves with the repository, and no clone contains one. Nothing is
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

#: Its name in the git directory.
NAME = "gatewright"
#: Its name outside of a repository. Earlier versions used it in work trees, as a folder or a link.
OUTSIDE = ".gatewright"


def common_git_directory(top: Path) -> Path | None:
    """Return the git directory that all work trees of the repository share; None if there is none.

    ``top`` is the top of a work tree, or a bare repository. Only files are read; git is not run.
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
    """Return whether ``folder`` itself has the layout of a git directory."""
    return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()


def home_at(folder: Path) -> Path | None:
    """Return the existing home folder of ``folder``: that of its repository, or a ``.gatewright`` in it, also as a link."""
    common, place = common_git_directory(folder), folder / OUTSIDE
    if common is not None and os.path.lexists(common / NAME):
        return common / NAME
    return place if place.is_dir() else None


def new_home(top: Path | None, here: Path) -> Path:
    """Return where to create a home folder for the current folder ``here``, in the repository ``top`` if there is one."""
    common = common_git_directory(top) if top is not None else None
    return (top or here) / OUTSIDE if common is None else common / NAME


def find_home(configured: Path | None, here: Path) -> Path:
    """Return the home folder for the current folder ``here``; it need not exist yet.

    1. ``configured``, if given.
    2. In a repository: that of its git directory, or the ``.gatewright`` at its top, else a new one in the git directory. A
       ``.gatewright`` in a subfolder is ignored.
    3. Elsewhere: the nearest ``.gatewright`` upwards, else a new one in ``here``.

    Raises:
        ConfigurationError: the folder belongs to another user (``home_not_own``; permitted if configured), or git tracks any
            file of it (``home_tracked``).
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
    """Return the home folder of the local system; None for a bus that was named.

    Raises ConfigurationError as ``find_home`` does.
    """
    loaded = settings.load()
    return None if loaded.nats_url else find_home(loaded.home, Path.cwd())


def find_repository(here: Path) -> Path | None:
    """Return the top of the git repository around ``here``, or None.

    A bare repository inside a work tree is ignored, since a clone may contain it.
    """
    around = tuple(upwards(here))
    top = next((folder for folder in around if _is_repository(folder)), None)
    return top or next((folder for folder in around if folder.name != ".git" and is_bare(folder)), None)


def tracked_by(path: Path) -> Path | None:
    """Return the repository that tracks ``path`` or any file below it; None if there is none.

    Every surrounding repository is asked, since each of them could contain it.
    """
    for place in dict.fromkeys((path, path.resolve())):
        for top in filter(_is_repository, (place, *place.parents)):
            if _is_tracked(top, place):
                return top
    return None


def upwards(here: Path) -> Iterator[Path]:
    """Yield ``here`` and its parents, as far as git searches for a repository."""
    ceilings = settings.git_ceilings()
    for folder in (here, *here.parents):
        yield folder
        if folder.parent in ceilings:
            return


def make_home(home: Path) -> bool:
    """Create the home folder, private and ignored by git; return whether it is new.

    Raises ConfigurationError if it cannot be created.
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
    """Return whether ``.git`` is a real repository, not a stray file or folder."""
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
