"""The files of ``--provide``, read from the user's checkout: generated, ignored by git, and needed by commands."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gatewright.app.cli.run.places import in_repository
from gatewright.errors import DeniedError, Fault, MalformedError
from gatewright.git.tracked import is_tracked
from gatewright.tasks.provided import MOST_BYTES, PREFIX, refuse_large

_POINTER = "/artifacts"


def read_provided(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Name and content of each; what cannot be provided is added to ``faults``."""
    found: dict[str, bytes] = {}
    if given and not Path(repository).is_dir():
        faults.append(Fault(_POINTER, "not_local", "--provide takes files of a repository on this host: clone it first"))
        return ()
    in_all = 0
    for each in given:
        known = len(faults)
        path = os.path.normpath(in_repository(each, repository, here, _POINTER, faults))
        if len(faults) > known:
            continue
        try:
            content = _read(Path(repository), path)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_POINTER, error.reason, f"--provide {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) else str(error)
            faults.append(Fault(_POINTER, "unreadable", f"--provide {each} cannot be read: {words}"))
        else:
            found[PREFIX + path] = content
    return tuple(found.items())


def _read(top: Path, path: str) -> bytes:
    """The content of a regular file below ``top``, through no link that leads out of it."""
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
