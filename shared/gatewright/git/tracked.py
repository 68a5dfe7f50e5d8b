"""Detection of host folders that a repository tracks, fully or partly: its committers then control their content.

A folder is tracked if git's index of a containing work tree names it, something below it, or a link on the path to it; if
the tree of a baseline does; or if it contains the repository. Nothing of a repository runs, and only its index is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.errors import DeniedError, GitError
from gatewright.git.command import GitCommand
from gatewright.git.host.identity import PROTOCOLS
from gatewright.git.host.local_repository import LocalRepository, find_repository
from gatewright.git.host.planted_links import PlantedLinks
from gatewright.git.process import in_thread
from gatewright.git.refs import parse_url

if TYPE_CHECKING:
    from gatewright.git.mirror import Mirror

TRACKED = "environment_tracked"


async def refuse_tracked_environment(prefix: Path, mirror: Mirror, baseline: str) -> None:
    """Raise DeniedError (``environment_tracked``) if the folder is tracked.

    ``prefix`` is an absolute path as given; ``baseline`` is the commit or tree in the mirror that the work starts from.
    """
    asked = await in_thread(_places_in_work_trees, prefix, mirror.url)
    for place, names in asked:
        entries = await mirror.files(baseline, names if names[0] else ())
        if _meets(names, (os.fsdecode(entry.path) for entry in entries)):
            raise _refuse_file(place, f"{baseline[:12]} tracks {names[0]}")


def refuse_tracked_folder(prefix: Path) -> None:
    """Raise DeniedError (``environment_tracked``) if the host alone shows that the folder is tracked. Blocks."""
    _places_in_work_trees(prefix, "")


def is_tracked(top: Path, path: str) -> bool:
    """Return whether the index of the work tree ``top`` has the file ``path``. Blocks; raises DeniedError if it is
    unreadable."""
    repository = _open_repository(top)
    return repository is not None and bool(_in_index(top, repository, (path,)))


def _places_in_work_trees(prefix: Path, url: str) -> list[tuple[Path, tuple[str, ...]]]:
    """Return the positions of ``prefix`` in work trees (see ``_path_names``); refuse one inside an index or repository."""
    source = parse_url(url, PROTOCOLS) if url else None
    found = []
    for place in _spellings(prefix):
        if source is not None and source.local and Path(os.path.realpath(source.address)).is_relative_to(place):
            raise _refuse_file(place, "it holds the repository itself")
        for top in (folder for folder in (place, *place.parents) if os.path.lexists(folder / ".git")):
            repository = _open_repository(top)
            if repository is not None:
                names = _path_names(top, place)
                if _meets(names, _in_index(top, repository, names)):
                    raise _refuse_file(place, f"the repository in {top} tracks {names[0] or 'files of it'}")
                found.append((place, names))
    return found


def _spellings(prefix: Path) -> tuple[Path, ...]:
    """Return the path with links as given, and resolved."""
    given = Path(os.path.abspath(prefix))  # noqa: PTH100 - links must stay
    real = Path(os.path.realpath(prefix))
    return (given,) if given == real else (given, real)


def _path_names(top: Path, place: Path) -> tuple[str, ...]:
    """Return the paths in the work tree ``top``: the place itself, and every link on the path to it."""
    inside = place.relative_to(top)
    links = [way for way in inside.parents if str(way) != "." and (top / way).is_symlink()]
    return ("" if str(inside) == "." else str(inside), *map(str, links))


def _meets(names: tuple[str, ...], tracked: Iterable[str]) -> bool:
    place, *links = names
    return any(path in (place, *links) or path.startswith(f"{place}/") or not place for path in tracked)


def _open_repository(top: Path) -> LocalRepository | None:
    """Return the repository; None for a folder of that name that is no repository."""
    try:
        return find_repository(str(top))
    except GitError as error:
        if error.reason == "repository_unreadable" and not (top / ".git").is_file():
            return None
        raise _refuse_file(top, error.message) from error


def _in_index(top: Path, repository: LocalRepository, names: tuple[str, ...]) -> list[str]:
    index = repository.git_dir / "index"
    if not os.path.lexists(index):
        return []
    try:
        PlantedLinks().refuse(repository, writing=False)
        if not index.is_file():
            raise _refuse_file(top, "its index is no file")
        wanted = names if names[0] else ()
        listed = GitCommand(repository.git_dir).execute("ls-files", "--cached", "-z", "--", *wanted)
    except (GitError, OSError) as error:
        raise _refuse_file(top, f"what it tracks cannot be read: {error}") from error
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _refuse_file(place: Path, why: str) -> DeniedError:
    words = f"{place} is no environment for commands that a repository brings ({why}); make one outside of what it tracks"
    return DeniedError(words, code=TRACKED)
