"""What Go built of the baseline, for every run of a task to begin with, instead of an empty cache.

It is made as bytecode is (``bytecode_cache.py``): in a sandbox, on a workspace of the baseline, by the compiler alone; no code
of a repository is run for it. It is kept in the test runner's own state, and every run finds it as the lower layer of a cache
of its own, whose upper layer no other run sees: nothing that a run builds, or writes there, reaches another.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import posixpath
import stat
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from gatewright.ecosystems.go.building import CACHE, MODULES, GoBuild, go_build, keys_cover_files
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.git.changes import TreeEntry
from gatewright.git.mirror_tree import list_tree
from gatewright.sandbox import Additions, Sandbox, SandboxLimits
from gatewright.sandbox.environments import Environments
from gatewright.services.testrunner.commands import BuiltBefore
from gatewright.services.testrunner.known_environments import at_once
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.version import __version__
from gatewright.workspace import Workspace, Workspaces
from gatewright.workspace.holds import hold, longest_unused, remove_unless_held, wait_for_hold
from gatewright.workspace.removal import remove_tree
from gatewright.workspace.threads import finish

#: Bytes of Go's sources that were not there when a cache was made, from which it is made anew.
_WORTH: Final = 200_000
#: Seconds that building may take; what it has built by then is kept.
_SECONDS: Final = 120.0
#: Seconds after which a cache is made anew: a compiler or a library of the system may be another one by then.
_OLDEST: Final = 7 * 86_400.0
#: Caches that are kept, and bytes of one; a larger one is not.
_MOST: Final = 4
_MOST_BYTES: Final = 1 << 30
_FILES: Final = "files"
_RECORD: Final = "record.json"
#: 2100-01-01: Go writes a new time to what it uses when that has an older one, and removes what was not used for days.
_IN_USE: Final = 4_102_444_800


class _Record(msgspec.Struct, frozen=True):
    """When a cache was made, and of which sources (the ids of their contents)."""

    made_at: float
    sources: frozenset[str]


@dataclasses.dataclass(frozen=True, slots=True)
class _Order:
    """Build input from ``candidate``'s baseline; ``modules`` are the files that list modules, ``sources`` those of Go."""

    candidate: RebuiltCandidate
    build: GoBuild
    environment: str
    modules: tuple[TreeEntry, ...]
    sources: tuple[TreeEntry, ...]

    @property
    def name(self) -> str:
        """Key of the cache."""
        modules = [(os.fsdecode(entry.path), entry.object_id) for entry in self.modules]
        key = json.dumps([__version__, self.environment, self.build.compiling, modules])
        return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()

    def is_old(self, record: _Record | None) -> bool:
        """Whether what was kept has too little of what would be built."""
        if record is None or not 0 <= time.time() - record.made_at <= _OLDEST:
            return True
        return sum(entry.size for entry in self.sources if entry.object_id not in record.sources) >= _WORTH


class BuildCache:
    """Below ``folder``, which is made when the first is kept; without one there is none. ``sandbox`` runs the compiler."""

    def __init__(self, folder: Path | None, sandbox: Sandbox, workspaces: Workspaces) -> None:
        self._folder = folder
        self._sandbox = sandbox
        self._workspaces = workspaces

    @asynccontextmanager
    async def use(
        self,
        candidate: RebuiltCandidate,
        commands: Iterable[Sequence[str]],
        prefix: Environments | None,
        environment: str,
        limits: SandboxLimits,
        confirmed: Callable[[], Awaitable[object]] = at_once,
    ) -> AsyncIterator[tuple[BuiltBefore, ...]]:
        """What runs of ``commands`` begin with, made now where it is not kept; it stays while the context is open.

        None is made before ``confirmed`` has returned; ``environment`` is the digest of what lies below ``prefix``.
        Raises GitError, SandboxError, ConfigurationError, DeniedError, UnavailableError.
        """
        order = await _order(candidate, commands, environment) if self._folder is not None else None
        if order is None or self._folder is None or not await self._workspaces.overlays():
            yield ()
            return
        place = self._folder / order.name
        held = hold(place, exclusive=False)
        if held is None or order.is_old(await asyncio.to_thread(_read_record, place)):
            if held is not None:
                os.close(held)
            await confirmed()
            await self._make_cache(order, place, prefix, limits)
            held = hold(place, exclusive=False)
        try:
            if held is not None:
                await asyncio.to_thread(os.utime, place)  # for the search for the longest unused one
            files = place / _FILES
            yield (BuiltBefore(CACHE, files),) if held is not None and files.is_dir() else ()
        finally:
            if held is not None:
                os.close(held)

    async def _make_cache(self, order: _Order, place: Path, prefix: Environments | None, limits: SandboxLimits) -> None:
        """Unless another process has made it meanwhile, or runs are using the old one. A full disk keeps nothing."""
        makers = await wait_for_hold(place.parent / f".makers-{place.name[:2]}")
        try:
            if not order.is_old(await asyncio.to_thread(_read_record, place)):
                return
            limits = dataclasses.replace(limits, wall_seconds=min(limits.wall_seconds, _SECONDS))
            candidate = order.candidate
            async with self._workspaces.open(candidate.mirror, candidate.baseline) as workspace:
                built = await self._built_folder(order.build, workspace, prefix, limits)
                record = _Record(time.time(), frozenset(entry.object_id for entry in order.sources))
                await finish(_replace_cache, place, built, record)
        finally:
            os.close(makers)

    async def _built_folder(
        self, build: GoBuild, workspace: Workspace, prefix: Environments | None, limits: SandboxLimits
    ) -> Path | None:
        """The folder on the host that has what was built; None where not all that is in it may be trusted for other sources."""
        listed = await self._sandbox.run(build.listing, workspace=workspace, prefix=prefix, limits=limits)
        if listed.exit_code or listed.truncated or not keys_cover_files(listed.stdout, workspace.path_inside):
            return None
        empty, folder = (workspace.task / f"{name}-{uuid.uuid4().hex}" for name in ("empty", "additions"))
        for each in (empty, folder):
            each.mkdir()
            each.chmod(0o755)  # independent of the umask
        cache = BuiltBefore(CACHE, empty).for_run(workspace)
        additions = Additions(folder, caches=(cache,))
        await self._sandbox.run(build.compiling, workspace=workspace, prefix=prefix, limits=limits, additions=additions)
        return cache.upper


async def _order(candidate: RebuiltCandidate, commands: Iterable[Sequence[str]], environment: str) -> _Order | None:
    """Of the first command that starts tests of Go; None where there is none."""
    tree = await list_tree(candidate.mirror, candidate.baseline)
    found = [build for argv in commands if (build := await go_build(argv, tree)) is not None]
    if not found:
        return None
    files = await candidate.mirror.files(candidate.baseline)
    modules = tuple(entry for entry in files if posixpath.basename(os.fsdecode(entry.path)) in MODULES)
    sources = tuple(entry for entry in files if entry.path.endswith(b".go"))
    return _Order(candidate, found[0], environment, modules, sources)


def _read_record(place: Path) -> _Record | None:
    try:
        return read_json((place / _RECORD).read_bytes(), _Record)
    except (OSError, UnreadableDocumentError):
        return None


def _replace_cache(place: Path, built: Path | None, record: _Record) -> None:
    """Take the place of what was kept there, unless that is in use; and forget what was not used for longest."""
    fresh = place.parent / f".new-{uuid.uuid4().hex}"
    try:
        fresh.mkdir(mode=0o755)
        fresh.chmod(0o755)
        if built is not None and _is_plain(built):
            built.rename(fresh / _FILES)
        (fresh / _RECORD).write_bytes(msgspec.json.encode(record))
        remove_unless_held(place)
        fresh.rename(place)
        for each in longest_unused(place.parent)[:-_MOST]:
            remove_unless_held(each)
    except OSError:
        return
    finally:
        remove_tree(fresh)


def _is_plain(built: Path) -> bool:
    """Whether there are files alone, and not too much of them; each gets the time of one that was used a moment ago."""
    left = _MOST_BYTES
    for folder, _, names in os.walk(built):
        for place in (Path(folder, name) for name in names):
            status = place.lstat()
            left -= status.st_size
            if not stat.S_ISREG(status.st_mode) or left < 0:
                return False
            os.utime(place, (_IN_USE, _IN_USE))
    return True
