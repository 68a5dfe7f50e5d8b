"""What is to be made for one ecosystem, and making it once: one process at a time, in a folder that its digest names.

The digest covers what is installed, not the files that ask for it: an edit of anything else in them finds the same folder.

A folder counts as made when the file beside it holds the digest of its record. That file is written last, and no package that
is installed can write it: what was left half-made is made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from gatewright.app.environments.errors import NotPreparedError
from gatewright.environment_state import MADE
from gatewright.sandbox.environments import PREPARED, PreparedEnvironment

Ecosystem = Literal["python", "node", "rust", "go"]
Note = Callable[[str], None]
#: Behind the name of a source: the digest is that of what the file says about packages, not of the file.
PACKAGES = " (packages)"
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Installer:
    """``variables`` are the user's own; ``source_builds``: packages of Python without a wheel may be built on this host.

    ``uv`` are the lines of pip that pin the uv which is installed where the host has none; empty for those that come with this.
    """

    variables: Mapping[str, str]
    source_builds: bool = False
    uv: tuple[str, ...] = ()

    @property
    def search(self) -> str:
        """Where programs are looked for."""
        return self.variables.get("PATH", "")


@dataclass(frozen=True, slots=True)
class Made:
    """What an installer has done: see ``PreparedEnvironment``."""

    tool: str
    mounts: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """``make`` fills the empty folder that it is given.

    ``sources`` are the digests of what decides, by the name of its file, the one that is named to people first: of the whole
    file, or under ``NAME (packages)`` of what it says about packages. ``facts`` are what else decides.
    ``silent``: making it takes a moment, and what takes longer has a plan and notes of its own.
    """

    ecosystem: Ecosystem
    sources: Mapping[str, str]
    facts: tuple[object, ...]
    installs: str
    make: Callable[[Path], Awaitable[Made]]
    notes: tuple[str, ...] = ()
    silent: bool = False

    @property
    def name(self) -> str:
        """For people: the file that said most."""
        return next(iter(self.sources)).removesuffix(PACKAGES)

    @property
    def digest(self) -> str:
        """Of all that decides what is installed."""
        said = [self.ecosystem, sorted(self.sources.items()), self.installs, repr(self.facts)]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


async def made_once(home: Path, plan: EnvironmentPlan, note: Note) -> Path:
    """The folder that ``plan`` makes, below ``home``; ``note`` is told what is going on. Raises NotPreparedError, OSError."""
    prefix = _prefix_of(home, plan)
    prefix.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    async with _alone(prefix, note) as mark:
        if _is_made(prefix, mark):
            os.utime(mark)
            return prefix
        for words in () if plan.silent else (f"preparing the environment from {plan.name} ...", *plan.notes):
            note(words)
        try:
            os.ftruncate(mark, 0)
            await asyncio.to_thread(remove_environment, prefix)
            prefix.mkdir(mode=0o755)
            prefix.chmod(0o755)  # whatever the umask: commands run as another account
            made = await plan.make(prefix)
            record = PreparedEnvironment(
                made.tool, dict(plan.sources), plan.installs, plan.ecosystem, dict(made.mounts), dict(made.results)
            )
            await asyncio.to_thread(_finish, prefix, mark, msgspec.json.encode(record))
        except BaseException as error:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_environment, prefix)
            if isinstance(error, OSError):
                raise NotPreparedError(f"the environment from {plan.name} could not be written: {error}") from error
            raise
        if not plan.silent:
            note(f"the environment is ready: {prefix}")
    return prefix


def is_made(home: Path, plan: EnvironmentPlan) -> bool:
    """Whether ``made_once`` would find it, as far as this can be told without waiting for another process."""
    return is_whole(_prefix_of(home, plan))


def is_whole(prefix: Path) -> bool:
    """Whether all of an environment is there: not while it is made, nor once it is being removed."""
    try:
        mark = os.open(lock_of(prefix), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _is_made(prefix, mark)
    finally:
        os.close(mark)


def _prefix_of(home: Path, plan: EnvironmentPlan) -> Path:
    return home / MADE / plan.digest[:32]


def lock_of(prefix: Path) -> Path:
    """The file beside an environment that its maker holds. It keeps the digest of the record, and when it was last wanted."""
    return prefix.with_suffix(".lock")


def _is_made(prefix: Path, mark: int) -> bool:
    try:
        record = (prefix / PREPARED).read_bytes()
    except OSError:
        return False
    return os.pread(mark, 128, 0).decode("ascii", "replace") == hashlib.sha256(record).hexdigest()


def _finish(prefix: Path, mark: int, record: bytes) -> None:
    place = prefix / PREPARED
    place.unlink(missing_ok=True)  # a package may have brought a link of that name
    place.write_bytes(record)
    place.chmod(0o644)
    os.pwrite(mark, hashlib.sha256(record).hexdigest().encode(), 0)


def remove_environment(folder: Path) -> None:
    """Remove all of it, folders without the right to write as well. Blocks. Raises OSError."""
    if not folder.exists():
        return
    for each, folders, _ in os.walk(folder):
        for name in folders:
            place = Path(each, name)
            if not place.is_symlink():
                place.chmod(0o755)
    shutil.rmtree(folder)


@asynccontextmanager
async def _alone(prefix: Path, note: Note) -> AsyncIterator[int]:
    """Held by one process at a time; the kernel lets it go with the process. Yields a descriptor of the file that is held."""
    held = os.open(lock_of(prefix), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not told:
                    note("waiting for another run that prepares the same environment")
                    told = True
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                break
        yield held
    finally:
        os.close(held)
