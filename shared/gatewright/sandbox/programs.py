"""The search for a command's program, and the message if it is missing. Reads the host, runs nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gatewright.sandbox.environments import Shown, environments_of
from gatewright.sandbox.system import PATH

#: The exit code of a shell and the sandbox for a missing program.
NOT_FOUND: Final = 127


def find_program(name: str, shown: Shown) -> Path | None:
    """The file that commands get for ``name``, a name without a slash; None when neither environment nor system has one."""
    environments = environments_of(shown)
    if environments.image is not None:
        return environments.image.find(name)
    folders = [
        *(prefix / "bin" for prefix in environments.prefixes),
        *map(Path, (*PATH.split(":"), *environments.program_folders())),
    ]
    return next((file for folder in folders if os.access(file := folder / name, os.X_OK) and not file.is_dir()), None)


def not_found(name: str, shown: Shown) -> str | None:
    """Return a message for a program that commands cannot have; None if it exists, or is a path, which the sandbox looks up."""
    if not name or "/" in name or find_program(name, shown) is not None:
        return None
    system = PATH.replace(":", ", ")
    prefixes, image = environments_of(shown).prefixes, environments_of(shown).image
    if image is not None:
        return f"{name!r} was not found in the image {image.record.image} (looked at {', '.join(image.path)})"
    if not prefixes:
        return f"{name!r} was not found in {system}, and no --env was given"
    looked = ", ".join(str(prefix / "bin") for prefix in prefixes)
    return f"{name!r} was not found in --env {', '.join(map(str, prefixes))} (looked at {looked}, {system})"
