"""The pull phase of a virtual environment: its own pip, in the box, with the user's registries of Python."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gatewright.app.environments.git_sources import GIT_VARIABLES, GitSource, git_addresses
from gatewright.app.environments.interpreters import Python
from gatewright.app.environments.plan import Installer
from gatewright.app.environments.pull import PullPhase, pull_phase
from gatewright.app.environments.registries import UserIndexes, python_registries
from gatewright.app.environments.requirements import is_named
from gatewright.app.environments.virtual_environments import fresh_environment

_INSTALL = ("install", "--no-input", "--disable-pip-version-check")


@dataclass(frozen=True, slots=True)
class PipPhase:
    """``words`` start the environment's pip, of ``version``."""

    phase: PullPhase
    words: tuple[str, ...]
    version: str
    python: Python

    async def install(self, *options: str) -> None:
        """Install packages; files are named from the scratch folder. Raises NotPreparedError."""
        toolchain = Path(self.python.program).parent.parent
        await self.phase.run((*self.words, *_INSTALL, *options), toolchain=toolchain, variables=GIT_VARIABLES)


@asynccontextmanager
async def pip_phase(
    prefix: Path, python: Python, installer: Installer, locked: Sequence[str] = (), git: Sequence[GitSource] = ()
) -> AsyncIterator[PipPhase]:
    """Create a virtual environment, and open its pull phase. Raises NotPreparedError.

    ``locked`` are all packages with their digests: then no other name may be asked for; without them any. ``git`` are
    repositories that may be read.
    """
    words, version = await fresh_environment(prefix, python, installer.variables)
    # A build of a package asks for what it is built with, which no lock names.
    names = None if installer.source_builds else [found for line in locked if (found := is_named(line))] or None
    addresses = partial(UserIndexes, names=names, given=git_addresses(git))
    async with pull_phase(prefix, installer, python_registries(installer), addresses) as phase:
        yield PipPhase(phase, words, version, python)
