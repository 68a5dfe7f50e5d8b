"""Paths as the user gives them, from the top of the repository. Links are followed to see where they lead."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.user_git import user_checkout
from gatewright.ecosystems.runner.names import has_test_name, is_runner_setting, is_test, is_test_data
from gatewright.errors import Fault
from gatewright.patterns import TextPattern

#: What makes a path a pattern.
_PATTERN = frozenset("*?[]!{}\\")
#: How the name of a file ends, and that of a folder hardly ever does; ``v1.2`` is a folder.
_FILE_ENDING = TextPattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}")


def in_repository(given: str, repository: str, here: Path, pointer: str, faults: list[Fault]) -> str:
    """``given`` from the top of the repository: an absolute path and one that begins with ``./`` are what the shell completes.

    ``./`` stands for ``here`` where that lies in the repository, else for its top; any other path is from the top already.
    """
    if not (given.startswith(("/", "./", "~/")) and len(given.strip("./")) > 0):
        return given
    top = Path(repository)
    start = here if here.resolve().is_relative_to(top.resolve()) else top
    path = Path(os.path.abspath(start / Path(given).expanduser()))  # noqa: PTH100 - links stay as given
    for one, other in ((path, top), (path.parent.resolve() / path.name, top.resolve())):
        if one.is_relative_to(other):
            return "." if one == other else str(one.relative_to(other)) + ("/" if given.endswith("/") else "")
    faults.append(Fault(pointer, "outside", f"{given} is not in the repository {repository}"))
    return given


def repository_folder(given: str | None, here: Path) -> Path | None:
    """The folder that ``--repo``, or its absence, means; None for what is no folder of this host."""
    if given is None:
        return find_repository(here)
    path = here / Path(given).expanduser()
    return path if path.is_dir() else None


def names_test_file(path: str, repository: str, ref: str) -> bool:
    """Whether ``path`` is the exact name of one test file: no folder, no pattern, and no file that sets tests up.

    ``conftest.py`` and the settings of runners decide how every test runs, so they need ``--allow-tests``. A file that ``ref``
    does not have counts where its name is that of a test, or where it lies among tests and its name ends like that of a file.
    """
    name = os.fsencode(path)
    if path.endswith("/") or not path.isprintable() or not _PATTERN.isdisjoint(path) or ".." in path.split("/"):
        return False
    if is_runner_setting(name) or name.rpartition(b"/")[2].lower() == b"conftest.py":
        return False
    if not (is_test(name) or is_test_data(name)):
        return False
    names_file = has_test_name(name) or _FILE_ENDING.fullmatch(PurePosixPath(path).suffix) is not None
    if not (repository.startswith("/") and Path(repository).is_dir()):
        return names_file
    kind = user_checkout(Path(repository)).objects.execute("cat-file", "-t", f"{ref}:{path}", ok=(0, 1, 128)).strip()
    return kind == b"blob" or (not kind and names_file)
