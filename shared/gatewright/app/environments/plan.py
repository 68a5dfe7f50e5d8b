"""The plan of one ecosystem's environment, and its single creation: one process at a time, in a folder named by its digest.

The digest covers what is installed, not the files that request it: other edits of these files find the same folder.

A folder is complete if the file beside it holds the digest of its record. That file is written last, and no installed
package can write it; a partial folder is made again.
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

import msgspec

from gatewright.app.environments.errors import NotPreparedError
from gatewright.egress.policy import EgressPolicy
from gatewright.environment_state import MADE
from gatewright.sandbox.environments import EGRESS_LOG, PREPARED, Ecosystem, EgressSummary, PreparedEnvironment

Note = Callable[[str], None]
#: Suffix of a source: the digest covers the file's packages, not the file.
PACKAGES = " (packages)"
_LOOK_AGAIN = 0.2


@dataclass(frozen=True, slots=True)
class Installer:
    """``variables`` are the user's own; ``source_builds``: Python packages without a wheel may be built, in the box.

    ``uv`` are pip lines that pin the uv installed on a host without one; empty for the shipped pin. ``egress`` is the
    operator's ceiling, None without one; ``secrets`` are the credentials that it names. ``sandbox`` is ``none`` only by the
    user's own setting.
    """

    variables: Mapping[str, str]
    source_builds: bool = False
    uv: tuple[str, ...] = ()
    egress: EgressPolicy | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    sandbox: str = "bubblewrap"

    @property
    def search(self) -> str:
        """Return the search path for programs."""
        return self.variables.get("PATH", "")


@dataclass(frozen=True, slots=True)
class Made:
    """The result of an installer: see ``PreparedEnvironment``."""

    tool: str
    mounts: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    egress: EgressSummary | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """The plan for one environment; ``make`` fills the empty folder that it receives.

    ``sources`` are digests of the deciding files by name, the main file first: of the whole file, or under ``NAME
    (packages)`` of its packages. ``facts`` are the other deciding values. ``silent``: creation is quick; slow parts have
    plans and notes of their own.
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
        """Return the main file, for people."""
        return next(iter(self.sources)).removesuffix(PACKAGES)

    @property
    def digest(self) -> str:
        """Return the digest of everything that decides what is installed."""
        deciding = [self.ecosystem, sorted(self.sources.items()), self.installs, repr(self.facts)]
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()


async def made_once(home: Path, plan: EnvironmentPlan, note: Note) -> Path:
    """Return the folder of ``plan`` below ``home``, created if needed; ``note`` receives progress. Raises NotPreparedError,
    OSError."""
    prefix = _prefix_of(home, plan)
    prefix.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    async with _alone(prefix, note) as mark:
        if _is_made(prefix, mark):
            os.utime(mark)
            note(f"the environment from {plan.name} exists: 0 requests to registries")
            return prefix
        for words in () if plan.silent else (f"preparing the environment from {plan.name} ...", *plan.notes):
            note(words)
        try:
            os.ftruncate(mark, 0)
            await asyncio.to_thread(remove_environment, prefix)
            prefix.mkdir(mode=0o755)
            prefix.chmod(0o755)  # regardless of the umask: commands run as another account
            made = await plan.make(prefix)
            found = dict(plan.sources), plan.installs, plan.ecosystem, dict(made.mounts), dict(made.results)
            record = PreparedEnvironment(made.tool, *found, made.egress)
            await asyncio.to_thread(_finish, prefix, mark, msgspec.json.encode(record))
        except BaseException as error:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(remove_environment, prefix)
            if isinstance(error, OSError):
                raise NotPreparedError(f"the environment from {plan.name} could not be written: {error}") from error
            raise
        if not plan.silent:
            note(f"the environment is ready: {prefix}{_egress_words(made.egress)}")
    return prefix


def is_made(home: Path, plan: EnvironmentPlan) -> bool:
    """Return whether ``made_once`` would find it, as far as visible without waiting for another process."""
    return is_whole(_prefix_of(home, plan))


def is_whole(prefix: Path) -> bool:
    """Return whether an environment is complete, and is neither being made nor removed."""
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
    """Return the file beside an environment that its maker locks. It has the digest of the record, and its last use as
    mtime."""
    return prefix.with_suffix(".lock")


def log_of(prefix: Path) -> Path:
    """Return the egress log of an environment that is being made; it is moved into a complete one."""
    return prefix.with_suffix(".egress")


def _egress_words(egress: EgressSummary | None) -> str:
    if egress is None:
        return ""
    return f" ({egress.requests} requests, {egress.refused} refused, {egress.bytes:,} bytes)"


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
    if log_of(prefix).exists():
        log_of(prefix).replace(prefix / EGRESS_LOG)
        (prefix / EGRESS_LOG).chmod(0o644)
    os.pwrite(mark, hashlib.sha256(record).hexdigest().encode(), 0)


def remove_environment(folder: Path) -> None:
    """Remove all of it, folders without the right to write as well, and its egress log. Blocks. Raises OSError."""
    log_of(folder).unlink(missing_ok=True)
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
        notified = False
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not notified:
                    note("waiting for another run that prepares the same environment")
                    notified = True
                await asyncio.sleep(_LOOK_AGAIN)
            else:
                break
        yield held
    finally:
        os.close(held)
