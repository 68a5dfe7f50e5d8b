"""Paths and files of a run's options, relative to the top of the repository or outside of it.

``--mount`` names package folders, ``--provide`` generated files, ``--hidden-file`` files for hidden tests only. Links are
resolved to check their targets. ``--env auto`` provides the project's version files that only its build would write. Their
content comes from git's tags, since a checkout could contain any file in their place.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from gatewright.app.cli.home import find_repository
from gatewright.app.cli.user_git import user_checkout
from gatewright.artifacts import PROVIDED
from gatewright.ecosystems.runner.names import has_test_name, is_runner_setting, is_test, is_test_data
from gatewright.errors import ConfigurationError, DeniedError, Fault, MalformedError
from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.tracked import is_tracked, refuse_tracked_folder
from gatewright.order_artifacts.hidden_acceptance import PREFIX as HIDDEN_PREFIX
from gatewright.patterns import TextPattern
from gatewright.research.documents import PREFIX as DOCUMENT
from gatewright.sandbox.environments import ShownFolder, safe_place
from gatewright.tasks.provided import MOST_BYTES, refuse_large

#: Characters that make a path a pattern.
_PATTERN = frozenset("*?[]!{}\\")
#: End of a file's name, which folders hardly ever have; ``v1.2`` is a folder.
_FILE_ENDING = TextPattern(r"\.[A-Za-z][A-Za-z0-9]{0,9}")
_MOUNTS = "/environment/at"
_ARTIFACTS = "/artifacts"


def in_repository(given: str, repository: str, here: Path, pointer: str, faults: list[Fault]) -> str:
    """Return ``given`` relative to the top of the repository.

    An absolute path and one that begins with ``./`` come from shell completion. ``./`` means ``here`` if that is in the
    repository, else its top. Any other path is relative to the top already.
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


def read_documents(paths: Sequence[Path], here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return the documents of a search as attachments, named by their paths as given."""
    found: list[tuple[str, bytes]] = []
    for given in paths:
        try:
            size = (here / given).stat().st_size
            refuse_large(str(given), size, size + sum(len(content) for _, content in found))
            found.append((f"{DOCUMENT}{given}", (here / given).read_bytes()))
        except OSError as error:
            faults.append(Fault(_ARTIFACTS, "unreadable", f"{given} cannot be read: {error.strerror}"))
        except MalformedError as error:
            faults.append(Fault(_ARTIFACTS, error.reason, error.message))
    return tuple(found)


def repository_folder(given: str | None, here: Path) -> Path | None:
    """Return the local folder of ``--repo``, or of its default; None for anything else."""
    if given is None:
        return find_repository(here)
    path = here / Path(given).expanduser()
    return path if path.is_dir() else None


def names_test_file(path: str, repository: str, ref: str) -> bool:
    """Return whether ``path`` is the exact name of one test file: no folder, no pattern, and no file that sets tests up.

    ``conftest.py`` and the settings of runners affect every test, so they need ``--allow-tests``. A file that does not exist in
    ``ref`` is a test file if its name is that of a test, or if it is among tests and its name has the suffix of a file.
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


def read_mounts(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> list[ShownFolder]:
    """Read mounts: ``PATH`` shows a folder of the checkout in its own place, ``PATH=DIR`` shows another folder there.

    Invalid mounts are added to ``faults``.
    """
    found = []
    for each in given:
        known = len(faults)
        place, _, folder = each.partition("=")
        place = os.path.normpath(in_repository(place, repository, here, _MOUNTS, faults))
        if len(faults) > known:
            continue
        try:
            found.append(ShownFolder(_mount_folder(place, folder, repository, here), safe_place(place)))
        except (DeniedError, MalformedError, ConfigurationError) as error:
            faults.append(Fault(_MOUNTS, error.reason, f"--mount {each}: {error.message}"))
    return found


def _mount_folder(place: str, given: str, repository: str, here: Path) -> Path:
    """Resolve the folder of a mount.

    Raises:
        DeniedError: the repository tracks content of the folder.
        MalformedError: it is not a folder, or leads out of the checkout.
    """
    top = Path(repository)
    if not given and not top.is_dir():
        raise MalformedError("the repository is not on this host: give the folder, too (PATH=DIR)", code="not_local")
    folder = here / Path(given).expanduser() if given else top / place
    if not folder.is_dir():
        raise MalformedError(f"there is no folder {folder}", code="not_found")
    if not given and not folder.resolve().is_relative_to(top.resolve()):
        words = f"{folder} is a link that leads out of the repository: give the folder itself (--mount {place}=DIR)"
        raise MalformedError(words, code="outside")
    refuse_tracked_folder(folder)
    return folder.resolve()


def read_provided(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return name and content of each provided file; invalid ones are added to ``faults``."""
    found: dict[str, bytes] = {}
    if given and not Path(repository).is_dir():
        faults.append(Fault(_ARTIFACTS, "not_local", "--provide takes files of a repository on this host: clone it first"))
        return ()
    in_all = 0
    for each in given:
        known = len(faults)
        path = os.path.normpath(in_repository(each, repository, here, _ARTIFACTS, faults))
        if len(faults) > known:
            continue
        try:
            content = _read_provided(Path(repository), path)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_ARTIFACTS, error.reason, f"--provide {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(Fault(_ARTIFACTS, "unreadable", f"--provide {each} cannot be read: {words}"))
        else:
            found[PROVIDED + path] = content
    return tuple(found.items())


def _read_provided(top: Path, path: str) -> bytes:
    """Return the content of a regular file below ``top``, without following links that lead outside."""
    # Imported late: few runs need it.
    from gatewright.workspace.planting import refuse_unsafe

    refuse_unsafe(path.encode())
    place = top / path
    if not place.resolve(strict=True).is_relative_to(top.resolve()):
        raise MalformedError("it leads out of the repository", code="outside")
    if is_tracked(top, path):
        raise DeniedError("git tracks it, so it is part of the run already", code="place_not_free")
    file = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(file, "rb") as stream:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise MalformedError("it is no file", code="path_unusable")
        return stream.read(MOST_BYTES + 1)


def read_hidden(given: tuple[str, ...], here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Return name and content of each ``PATH=FILE``, relative to ``here``; invalid ones are added to ``faults``."""
    if not given:
        return ()
    # Imported late: few runs need it.
    from gatewright.workspace.planting import refuse_unsafe

    found: dict[str, bytes] = {}
    in_all = 0
    for each in given:
        path, equals, file = each.partition("=")
        if not equals or not path or not file:
            words = f"--hidden-file {each}: name its path and its file: PATH=FILE"
            faults.append(Fault(_ARTIFACTS, "path_unusable", words))
            continue
        path = os.path.normpath(path)
        try:
            refuse_unsafe(os.fsencode(path))
            with (here / Path(file).expanduser()).open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_ARTIFACTS, error.reason, f"--hidden-file {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            faults.append(Fault(_ARTIFACTS, "unreadable", f"--hidden-file {each} cannot be read: {words}"))
        else:
            found[HIDDEN_PREFIX + path] = content
    return tuple(found.items())


async def written_files(
    top: Path, ref: str, provided: Sequence[str], note: Callable[[str], None]
) -> tuple[tuple[str, bytes], ...]:
    """Return path and content of the version files of the project at ``ref``, without those in ``provided``.

    Raises GitError, MalformedError (``bad_ref``).
    """
    # Imported late: no other run needs it.
    from gatewright.app.environments.baseline_tree import baseline_tree
    from gatewright.app.environments.version_files import version_after, version_file, version_files

    checkout = user_checkout(top)
    tree = await asyncio.to_thread(baseline_tree, checkout, ref)
    given = {posixpath.normpath(each) for each in provided}
    missing = [path for path in await version_files(tree) if path not in given]
    if not missing:
        return ()
    version = version_after(await asyncio.to_thread(_describe_ref, checkout, ref))
    for path in missing:
        note(f"{path} is what a build of the project writes: provided with version {version}, unless --provide has another")
    return tuple((path, version_file(version)) for path in missing)


def _describe_ref(checkout: UserCheckout, ref: str) -> str:
    words = ("describe", "--tags", "--long", "--match", "*[0-9]*", checkout.commit_named(ref))
    return checkout.objects.execute(*words, ok=(0, 128)).decode("utf-8", "replace")
