"""The files of ``--hidden-file``: what hidden tests alone see, from wherever the user keeps it."""

from __future__ import annotations

import os
from pathlib import Path

from gatewright.errors import DeniedError, Fault, MalformedError
from gatewright.order_artifacts.hidden_acceptance import PREFIX
from gatewright.tasks.provided import MOST_BYTES, refuse_large

_POINTER = "/artifacts"


def read_hidden(given: tuple[str, ...], here: Path, faults: list[Fault]) -> tuple[tuple[str, bytes], ...]:
    """Name and content of each ``PATH=FILE``, for a user who stands in ``here``; what cannot be used is added to ``faults``."""
    if not given:
        return ()
    # Imported late: few runs need it.
    from gatewright.workspace.planting import refuse_unsafe

    found: dict[str, bytes] = {}
    in_all = 0
    for each in given:
        path, equals, file = each.partition("=")
        if not equals or not path or not file:
            words = f"--hidden-file {each}: say where it is to be shown, and which file it is: PATH=FILE"
            faults.append(Fault(_POINTER, "path_unusable", words))
            continue
        path = os.path.normpath(path)
        try:
            refuse_unsafe(os.fsencode(path))
            with (here / Path(file).expanduser()).open("rb") as stream:
                content = stream.read(MOST_BYTES + 1)
            in_all += len(content)
            refuse_large(path, len(content), in_all)
        except (DeniedError, MalformedError) as error:
            faults.append(Fault(_POINTER, error.reason, f"--hidden-file {each}: {error.message}"))
        except (OSError, ValueError) as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            faults.append(Fault(_POINTER, "unreadable", f"--hidden-file {each} cannot be read: {words}"))
        else:
            found[PREFIX + path] = content
    return tuple(found.items())
