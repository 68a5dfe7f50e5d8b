"""Where a command's program is looked for, and what to say when it is not there. Looks at the host, runs nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gatewright.sandbox.system import PATH

#: What a shell and the sandbox say of a program that does not exist.
NOT_FOUND: Final = 127


def find_program(name: str, prefix: Path | None) -> Path | None:
    """The file that commands get for ``name``, a name without a slash; None when neither prefix nor system has one."""
    folders = [*([] if prefix is None else [prefix / "bin"]), *map(Path, PATH.split(":"))]
    return next((file for folder in folders if os.access(file := folder / name, os.X_OK) and not file.is_dir()), None)


def not_found(name: str, prefix: Path | None) -> str | None:
    """Words for a program that commands cannot have; None when it is there, or is a path, which the sandbox looks up."""
    if not name or "/" in name or find_program(name, prefix) is not None:
        return None
    system = PATH.replace(":", ", ")
    if prefix is None:
        return f"{name!r} was not found: no --env was given, and commands see {system} besides"
    return f"{name!r} was not found in --env {prefix} (looked at {prefix / 'bin'}, {system})"
