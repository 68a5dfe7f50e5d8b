"""The pull phase of a virtual environment: its own pip or uv, in the box, with the user's registries of Python."""

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

#: uv uses nothing of the user's, and fetches no Python.
UV_VARIABLES = {"UV_NO_CACHE": "1", "UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never"}
_INSTALL = ("install", "--no-input", "--disable-pip-version-check")
#: ``sync`` keeps the environment's own pip. pip, too, takes the best version of all indexes, and compiles modules.
_SYNC = ("pip", "sync", "--require-hashes", "--only-binary", ":all:", "--compile-bytecode", "--link-mode", "copy")
#: The settings of pip that uv has by another name, and those that keep a list from being installed by uv.
_NAMES_OF_UV = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX"}
_OF_PIP_ALONE = frozenset({"PIP_FIND_LINKS", "PIP_CONSTRAINT"})


@dataclass(frozen=True, slots=True)
class PipPhase:
    """``words`` start the environment's pip, of ``version``."""

    phase: PullPhase
    words: tuple[str, ...]
    version: str
    python: Python

    async def install(self, *options: str) -> None:
        """Install packages; files are named from the scratch folder. Raises NotPreparedError."""
        await self.phase.run((*self.words, *_INSTALL, *options), toolchain=self.python.toolchain, variables=GIT_VARIABLES)

    @property
    def may_sync(self) -> bool:
        """Return whether uv finds the user's registries."""
        return "PIP_INDEX_URL" in self.phase.settings and _OF_PIP_ALONE.isdisjoint(self.phase.settings)

    async def sync(self, uv: str, file: str) -> str:
        """Install the wheels of ``file``, a complete list with digests, by uv; return its version. Raises NotPreparedError."""
        named = {name: value for of_pip, name in _NAMES_OF_UV.items() if (value := self.phase.settings.get(of_pip))}
        words = (uv, *_SYNC, "--python", self.words[0], file)
        own = {**UV_VARIABLES, "UV_INDEX_STRATEGY": "unsafe-best-match", **named}
        await self.phase.run(words, programs=(uv,), toolchain=self.python.toolchain, variables=own)
        return " ".join((await self.phase.run((uv, "--version"), programs=(uv,))).decode("utf-8", "replace").split()[:2])


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
