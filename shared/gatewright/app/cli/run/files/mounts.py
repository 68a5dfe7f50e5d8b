"""The folders of ``--mount``: packages that lie in the user's checkout, or elsewhere, ignored by git and needed by commands."""

from __future__ import annotations

import os
from pathlib import Path

from gatewright.app.cli.run.places import in_repository
from gatewright.errors import ConfigurationError, DeniedError, Fault, MalformedError
from gatewright.git.tracked import refuse_tracked_folder
from gatewright.sandbox.environments import ShownFolder, safe_place

_POINTER = "/environment/at"


def read_mounts(given: tuple[str, ...], repository: str, here: Path, faults: list[Fault]) -> list[ShownFolder]:
    """``PATH`` is a folder of the checkout that is shown in its own place, ``PATH=DIR`` shows another one there.

    What cannot be shown is added to ``faults``.
    """
    found = []
    for each in given:
        known = len(faults)
        place, _, folder = each.partition("=")
        place = os.path.normpath(in_repository(place, repository, here, _POINTER, faults))
        if len(faults) > known:
            continue
        try:
            found.append(ShownFolder(_folder(place, folder, repository, here), safe_place(place)))
        except (DeniedError, MalformedError, ConfigurationError) as error:
            faults.append(Fault(_POINTER, error.reason, f"--mount {each}: {error.message}"))
    return found


def _folder(place: str, given: str, repository: str, here: Path) -> Path:
    """Raises DeniedError for what a repository tracks, MalformedError for what is no folder, or leads out of the checkout."""
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
