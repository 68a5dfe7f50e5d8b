"""A toolchain that the user has and the system has not: rustup's, nvm's, a Go of one's own."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.plan import Ecosystem, Installer
from gatewright.app.environments.tool import run_tool
from gatewright.sandbox.programs import find_program

_SECONDS = 60.0
#: The program, and what prints the folder that holds its ``bin``.
_ASKED: dict[Ecosystem, tuple[str, tuple[str, ...]]] = {
    "node": ("node", ("node", "-p", "require('path').dirname(require('path').dirname(process.execPath))")),
    "rust": ("cargo", ("rustc", "--print", "sysroot")),
    "go": ("go", ("go", "env", "GOROOT")),
}


async def toolchain(ecosystem: Ecosystem, installer: Installer) -> tuple[Path, ...]:
    """The folder to show, or none: the system has the program, or the user has it neither. Runs the user's own toolchain."""
    if ecosystem not in _ASKED:
        return ()
    program, asked = _ASKED[ecosystem]
    if find_program(program, None) is not None:
        return ()
    found = shutil.which(asked[0], path=installer.search)
    if found is None:
        return ()
    with tempfile.TemporaryDirectory(prefix="gatewright-env-") as name:
        variables = {**installer.variables, "GOTOOLCHAIN": "local"}
        try:
            said = await run_tool((found, *asked[1:]), folder=Path(name), environment=variables, seconds=_SECONDS)
        except NotPreparedError:
            return ()
    place = Path(os.fsdecode(said.strip().splitlines()[-1])) if said.strip() else Path()
    usable = place.is_absolute() and await asyncio.to_thread(os.access, place / "bin" / program, os.X_OK)
    return (place.resolve(),) if usable else ()
