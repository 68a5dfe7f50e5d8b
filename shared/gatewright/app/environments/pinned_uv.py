"""The uv that reads ``uv.lock`` where the host has none: a wheel of the user's registry, held to digests of ours.

It runs in the box only. Its version and the digests of its wheels are pinned (``pinned_uv.txt``, by ``make lock``), and pip
refuses a registry that serves another file.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path

from gatewright.app.environments.errors import NotPreparedError
from gatewright.app.environments.interpreters import Python
from gatewright.app.environments.pip_phase import pip_phase
from gatewright.app.environments.plan import EnvironmentPlan, Installer, Made

#: Makes what a plan describes, once, and returns its folder.
Make = Callable[[EnvironmentPlan], Awaitable[Path]]
_LOCK = "pinned_uv.txt"


async def uv_program(python: Python, installer: Installer, make: Make) -> str:
    """Return the host's uv, else one installed into an environment of its own. Raises NotPreparedError."""
    found = shutil.which("uv", path=installer.search)
    if found is not None:
        return found
    lines = installer.uv or pinned_lines()
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    facts = (python.version, python.program)
    build = partial(_install, lines=lines, python=python, installer=installer)
    notes = ("this host has no uv, which reads uv.lock: one is installed for Gatewright alone",)
    prefix = await make(EnvironmentPlan("python", {lines[0].split()[0]: digest}, facts, "wheels", build, notes))
    return str(prefix / "bin" / "uv")


def pinned_lines() -> tuple[str, ...]:
    """Return the requirement shipped with this package, in pip's format."""
    text = files("gatewright.app.environments").joinpath(_LOCK).read_text("ascii").replace("\\\n", " ")
    return tuple(" ".join(line.split()) for line in text.splitlines() if line.strip())


async def _install(prefix: Path, *, lines: Sequence[str], python: Python, installer: Installer) -> Made:
    async with pip_phase(prefix, python, installer, lines) as pip:
        (pip.phase.scratch / "uv.txt").write_text("".join(f"{line}\n" for line in lines), "ascii")
        try:
            await pip.install("--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", "uv.txt")
        except NotPreparedError as error:
            words = f"uv.lock is read by uv, which could not be installed: {error.message}"
            raise NotPreparedError(f"{words}\n  put a uv on your PATH, or give --env DIR") from error
        return Made(pip.version, egress=pip.phase.summary())
