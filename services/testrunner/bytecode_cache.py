"""Bytecode of the baseline's sources: what every run of a Python suite would compile anew, for each of its workspaces.

No code of a repository takes part in making it, or it could outlive the change that it came with: a program of ours compiles,
in a sandbox, and runs none of it. It is made of files that have landed, kept in the test runner's own state by content, path
and environment, and given to all workspaces of a task alike, read-only. What is compiled is what the same command loaded the
last time; the first time, its test files and what they import, as the baseline's text has it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import os
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import msgspec

from gatewright.ecosystems.python.frameworks import is_rewritten, where_tests_begin
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.python.pytest_settings import read_settings
from gatewright.ecosystems.python.reporter.compile_sources import PROCESSES
from gatewright.ecosystems.registry import may_be_tests, recognise
from gatewright.errors import DeniedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.git.changes import TreeEntry
from gatewright.git.mirror_tree import is_readable, list_tree
from gatewright.git.modes import REGULAR
from gatewright.sandbox import Additions, Sandbox, SandboxLimits
from gatewright.sandbox.environments import Environments
from gatewright.sandbox.port import ADDITIONS_INSIDE
from gatewright.services.testrunner.known_environments import at_once
from gatewright.services.testrunner.tables import key_of
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.version import __version__
from gatewright.workspace import Workspaces
from gatewright.workspace.bytecode import Bytecode

#: Bytes of sources that are not compiled yet: fewer are compiled by each run, sooner than a sandbox would be started for it.
WORTH: Final = 200_000
#: Sources of one command, and those of a tree among which imports are followed; bytes of them, and seconds that compiling may
#: take: what is left comes the next time.
_MOST_SOURCES: Final = 4000
_MOST_FOLLOWED: Final = 20_000
_MOST_BYTES: Final = 32 << 20
_SECONDS: Final = 20.0
#: Files that are kept, of one environment; and environments.
_MOST_KEPT: Final = 20_000
_MOST_ENVIRONMENTS: Final = 8
_PROGRAM: Final = "compile_sources.py"
_OUTPUT: Final = b"gatewright-bytecode/"
_LOADED: Final = "loaded"
#: What is kept of a source that cannot be compiled: tests also open files that only look like one.
_NONE: Final = Bytecode("", b"")


class _Loaded(msgspec.Struct, frozen=True):
    """The sources that a command loaded, and the framework that it started."""

    framework: str
    paths: tuple[str, ...]


class BytecodeCache:
    """Below ``folder``, which is made when the first is kept; without one there is none. ``sandbox`` runs the compiler."""

    def __init__(self, folder: Path | None, sandbox: Sandbox, workspaces: Workspaces) -> None:
        self._folder = folder
        self._sandbox = sandbox
        self._workspaces = workspaces

    async def remember(self, argv: Sequence[str], environment: str, framework: str, loaded: Iterable[str]) -> None:
        """The sources that ``argv`` loaded in ``environment``, a digest; nothing is remembered without one."""
        paths = sorted(path for path in loaded if path.endswith(".py"))[:_MOST_SOURCES]
        if self._folder is not None and environment and paths:
            data = msgspec.json.encode(_Loaded(framework, tuple(paths)))
            place = _below(self._folder, environment) / _LOADED / key_of("", argv, environment)
            await asyncio.to_thread(_store_bytecode, place, data)

    async def of(
        self,
        candidate: RebuiltCandidate,
        commands: Iterable[Sequence[str]],
        prefix: Environments | None,
        environment: str,
        limits: SandboxLimits,
        confirmed: Callable[[], Awaitable[object]] = at_once,
    ) -> Mapping[bytes, Bytecode]:
        """By path, of the baseline's files that one of ``commands`` loaded before; made now where that is worth it.

        None is made before ``confirmed`` has returned.

        Raises GitError, SandboxError, ConfigurationError, DeniedError, UnavailableError.
        """
        if self._folder is None or not environment or prefix is None or self._sandbox.name == "none":
            return {}
        folder = _below(self._folder, environment)
        wanted = await self._wanted_modules(folder, candidate, commands, environment)
        sources = await _sources(candidate, wanted)
        found = await asyncio.to_thread(_read_kept, folder, sources)
        missing = {path: source for path, source in sources.items() if path not in found}
        if sum(source.size for source in missing.values()) >= WORTH:
            await confirmed()
            made = await self._compile(candidate, _Order(sources, frozenset(missing), wanted), prefix, limits)
            await asyncio.to_thread(_keep_all, self._folder, folder, {sources[path]: each for path, each in made.items()})
            found = {**found, **made}
            for argv, framework in wanted.unknown:
                # Of a tree that no tests have passed on, too: its imports are followed once.
                await self.remember(argv, environment, framework, map(os.fsdecode, found))
        return {path: each for path, each in found.items() if each != _NONE}

    async def _wanted_modules(
        self, folder: Path, candidate: RebuiltCandidate, commands: Iterable[Sequence[str]], environment: str
    ) -> _Wanted:
        """What ``commands`` loaded the last time; of one that never ran, where its tests begin."""
        wanted = _Wanted()
        tree = await list_tree(candidate.mirror, candidate.baseline)
        for argv in commands:
            place = folder / _LOADED / key_of("", argv, environment)
            loaded = await asyncio.to_thread(_read_loaded, place)
            wanted.loaded |= loaded
            framework = await recognise(argv, tree) if not loaded and may_be_tests(argv) else None
            if framework is not None and (begin := await where_tests_begin(framework.name, argv, tree)):
                wanted.loaded |= dict.fromkeys(begin, framework.name == "pytest")
                wanted.unknown.append((tuple(argv), framework.name))
        if wanted.unknown:
            wanted.roots = (await import_roots(tree)).folders
        return wanted

    async def _compile(
        self, candidate: RebuiltCandidate, order: _Order, prefix: Environments, limits: SandboxLimits
    ) -> dict[bytes, Bytecode]:
        limits = dataclasses.replace(limits, wall_seconds=min(limits.wall_seconds, _SECONDS))
        async with self._workspaces.open(candidate.mirror, candidate.baseline) as workspace:
            if not workspace.overlay:
                return {}
            folder = workspace.task / f"additions-{uuid.uuid4().hex}"
            await asyncio.to_thread(_write_program, folder, order.written())
            # Isolated: neither the workspace nor a variable can influence imports.
            argv = ("python3", "-I", f"{ADDITIONS_INSIDE}/{_PROGRAM}", f"{ADDITIONS_INSIDE}/order.json")
            completed = await self._sandbox.run(
                argv, workspace=workspace, prefix=prefix, limits=limits, additions=Additions(folder)
            )
            try:
                changes = await workspace.changes()
            except DeniedError:  # beyond what is taken of any workspace
                return {}
        paths, made = list(order.sources), {}
        for change in changes:
            number, dash, name = os.fsdecode(change.path.removeprefix(_OUTPUT)).partition("-")
            if dash and number.isascii() and number.isdecimal() and int(number) < len(paths) and change.content is not None:
                made[paths[int(number)]] = Bytecode(name, change.content)
        if order.wanted.unknown:  # what was not reached is not known to be wrong
            return made
        if completed.timed_out or completed.stopped:
            # What is left is compiled the next time, but for those with which it may have met the limit.
            paths = paths[: 1 + PROCESSES + max((at for at, path in enumerate(paths) if path in made), default=-1)]
        return {**{path: _NONE for path in paths if path in order.missing}, **made}


@dataclasses.dataclass(slots=True)
class _Wanted:
    """Paths that commands load, and whether by pytest; of ``unknown`` ones (with what they start), where they begin."""

    loaded: dict[str, bool] = dataclasses.field(default_factory=dict)
    unknown: list[tuple[tuple[str, ...], str]] = dataclasses.field(default_factory=list)
    roots: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Order:
    """Input of the program: of ``sources`` those that are ``missing``."""

    sources: Mapping[bytes, _Source]
    missing: frozenset[bytes]
    wanted: _Wanted

    def written(self) -> bytes:
        """As the program reads it."""
        sources = [(os.fsdecode(path), source.rewritten, path in self.missing) for path, source in self.sources.items()]
        fields = {"sources": sources, "begin": list(self.wanted.loaded), "roots": self.wanted.roots, "least": WORTH}
        return json.dumps(fields).encode()


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """A file of the baseline, and how it is compiled; ``size`` in bytes."""

    path: bytes
    object_id: str
    size: int
    rewritten: bool

    @property
    def name(self) -> str:
        """Key of its bytecode."""
        key = json.dumps([os.fsdecode(self.path), self.object_id, self.rewritten])
        return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _below(folder: Path, environment: str) -> Path:
    return folder / hashlib.sha256(json.dumps([__version__, environment]).encode()).hexdigest()


async def _sources(candidate: RebuiltCandidate, wanted: _Wanted) -> dict[bytes, _Source]:
    """Return the wanted sources of the baseline; for unknown commands, everything they could import."""
    if not wanted.loaded:
        return {}
    every, by_pytest = bool(wanted.unknown), any(wanted.loaded.values())
    most, left = (_MOST_FOLLOWED if every else _MOST_SOURCES), _MOST_BYTES
    chosen: list[tuple[TreeEntry, bool]] = []
    for entry in await candidate.mirror.files(candidate.baseline):
        path = os.fsdecode(entry.path)
        rewritten = wanted.loaded.get(path, by_pytest if every and path.endswith(".py") else None)
        if rewritten is not None and len(chosen) < most and _is_compiled(entry) and entry.size <= left:
            left -= entry.size
            chosen.append((entry, rewritten))
    if _MOST_BYTES - left < WORTH:  # small suites wait for nothing more
        return {}
    settings = await read_settings(await list_tree(candidate.mirror, candidate.baseline))
    found = {}
    for entry, maybe in chosen:
        rewritten = maybe and is_rewritten(os.fsdecode(entry.path), settings)
        found[entry.path] = _Source(entry.path, entry.object_id, entry.size, rewritten)
    return found


def _is_compiled(entry: TreeEntry) -> bool:
    return entry.mode in REGULAR and is_readable(entry)


def _read_loaded(place: Path) -> dict[str, bool]:
    try:
        loaded = read_json(place.read_bytes(), _Loaded)
    except (OSError, UnreadableDocumentError):
        return {}
    return dict.fromkeys(loaded.paths, loaded.framework == "pytest")


def _read_kept(folder: Path, sources: Mapping[bytes, _Source]) -> dict[bytes, Bytecode]:
    found = {}
    for path, source in sources.items():
        try:
            name, _, data = (folder / source.name).read_bytes().partition(b"\n")
            found[path] = Bytecode(name.decode(), data)
        except (OSError, UnicodeDecodeError):
            continue
    return found


def _keep_all(root: Path, folder: Path, made: Mapping[_Source, Bytecode]) -> None:
    """And forget what was kept longest ago."""
    for source, each in made.items():
        _store_bytecode(folder / source.name, each.name.encode() + b"\n" + each.data)
    try:
        kept = sorted((place for place in folder.iterdir() if place.is_file()), key=_age)
        for place in kept[:-_MOST_KEPT]:
            place.unlink(missing_ok=True)
        for other in sorted(root.iterdir(), key=_age)[:-_MOST_ENVIRONMENTS]:
            for place in (*other.glob(f"{_LOADED}/*"), *other.glob("*")):
                if not place.is_dir():
                    place.unlink(missing_ok=True)
            (other / _LOADED).rmdir()
            other.rmdir()
    except OSError:
        return


def _age(place: Path) -> int:
    return place.stat().st_mtime_ns


def _store_bytecode(place: Path, data: bytes) -> None:
    """A full disk keeps nothing."""
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = place.parent / f".{uuid.uuid4().hex}"
        new.write_bytes(data)
        new.replace(place)
    except OSError:
        return


def _write_program(folder: Path, order: bytes) -> None:
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)  # independent of the umask
    program = (resources.files("gatewright.ecosystems.python") / "reporter" / _PROGRAM).read_bytes()
    for name, content in ((_PROGRAM, program), ("order.json", order)):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)
