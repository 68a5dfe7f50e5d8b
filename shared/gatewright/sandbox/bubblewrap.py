"""The bubblewrap sandbox: no network, a read-only system, one writable folder, nothing of the host's user.

It consists of namespaces (user, mount, PID, network, IPC, UTS, cgroup) without any capability inside, no nested user
namespaces, and the filter of ``syscalls.py``. docs/sandbox.md lists what it permits.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from gatewright.canary import CANARY_FILE, new_canary
from gatewright.errors import ConfigurationError, HostError, SandboxError
from gatewright.sandbox.account import SandboxAccount, sandbox_account
from gatewright.sandbox.argv import check_argv
from gatewright.sandbox.binary import find_bwrap
from gatewright.sandbox.causes import explain
from gatewright.sandbox.descent import descend
from gatewright.sandbox.environments import Shown, caches_of, environments_of
from gatewright.sandbox.images import ImageRoot
from gatewright.sandbox.limits import SandboxLimits, restricting
from gatewright.sandbox.port import (
    ADDITIONS_INSIDE,
    DOOR_PORT,
    HOME_INSIDE,
    SOURCE_DATE_EPOCH,
    Additions,
    CacheFolder,
    Completed,
    Furnishing,
    SandboxReport,
    SandboxSession,
    WorkingFolder,
)
from gatewright.sandbox.prefix import home_folders, inspect_folder, inspect_installation, inspect_prefix
from gatewright.sandbox.probe import probe_bubblewrap
from gatewright.sandbox.process.namespace import Namespace
from gatewright.sandbox.process.session import hold_session
from gatewright.sandbox.process.start_barrier import StartBarrier, behind_gate
from gatewright.sandbox.process.supervision import NotStartedError, Started, start, supervise
from gatewright.sandbox.process.watch import disk_nearly_full
from gatewright.sandbox.syscalls import seccomp_filter
from gatewright.sandbox.system import ETC, USER_ID, environment, image_mounts, system_mounts

_HOME: Final = "/tmp/home"  # noqa: S108 - inside, where /tmp is private
_ROOT: Final = Path("/")
NOT_FREE: Final = "place_not_free"
_WALLS: Final = (
    *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"),
    *("--cap-drop", "ALL", "--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "sandbox"),
)


@dataclass(frozen=True, slots=True)
class _View:
    """A command's view besides the system: ``binds`` (host folder, path inside), ``links`` (path inside, text), variables.

    ``mounts`` are (host folder, path in the workspace) pairs, ``kept`` (writable host folder, path inside) pairs;
    ``caches`` are in the home; ``image`` replaces the host's system.
    """

    binds: tuple[tuple[Path, Path], ...]
    links: tuple[tuple[Path, str], ...]
    variables: Mapping[str, str]
    mounts: tuple[tuple[Path, str], ...] = ()
    kept: tuple[tuple[Path, str], ...] = ()
    caches: tuple[CacheFolder, ...] = ()
    image: ImageRoot | None = None

    def with_additions(self, additions: Additions) -> _View:
        """The same, and what a command is given beyond it."""
        bind = (additions.folder, Path(ADDITIONS_INSIDE))
        added = additions.variables_at(ADDITIONS_INSIDE, self.variables["PATH"])
        return replace(self, binds=(*self.binds, bind), variables={**self.variables, **added}, caches=additions.caches)

    def with_furnishing(self, furnishing: Furnishing, homes: frozenset[Path], account: SandboxAccount) -> _View:
        """The same, and what a program that is talked to is given. Raises ConfigurationError for what must not be shown."""
        shown = [(inspect_installation(place, homes=homes, account=account), place) for place in furnishing.shown]
        # A path below a visible folder is already visible, and another bind over it would need a mount point in it.
        present = {inside for _, inside in self.binds}
        more = [pair for pair in shown if pair[1] not in present]
        kept = tuple((folder, str(Path(HOME_INSIDE, name))) for name, folder in furnishing.kept.items())
        return replace(self, binds=(*self.binds, *more), variables={**self.variables, **furnishing.variables}, kept=kept)


class BubblewrapSandbox:
    """``account`` is the account of commands on the host; default: ``sandbox_account``."""

    name: Literal["bubblewrap"] = "bubblewrap"

    def __init__(self, account: SandboxAccount | None = None) -> None:
        self._account = account or sandbox_account()

    @cached_property
    def _system(self) -> tuple[str, ...]:
        return system_mounts()

    @cached_property
    def _homes(self) -> frozenset[Path]:
        return home_folders()

    async def run(
        self,
        argv: Sequence[str],
        *,
        workspace: WorkingFolder,
        prefix: Shown,
        limits: SandboxLimits,
        source_date_epoch: int = SOURCE_DATE_EPOCH,
        additions: Additions | None = None,
    ) -> Completed:
        """See ``Sandbox.run``. The calling thread must live as long as the command, which is killed when the thread ends."""
        check_argv(argv)
        view = self._view(prefix, workspace, _HOME, source_date_epoch)
        if additions is not None:
            view = view.with_additions(additions)
        try:
            return await self._run_process(argv, workspace, view, limits)
        except OSError as error:
            raise SandboxError(f"the sandbox cannot be made: {error}") from error

    @asynccontextmanager
    async def session(
        self, argv: Sequence[str], *, workspace: WorkingFolder, prefix: Shown, limits: SandboxLimits, furnishing: Furnishing
    ) -> AsyncIterator[SandboxSession]:
        """See ``TalkingSandbox.session``. The calling thread must live as long as the program."""
        check_argv(argv)
        view = self._view(prefix, workspace, HOME_INSIDE, SOURCE_DATE_EPOCH)
        view = view.with_furnishing(furnishing, self._homes, self._account)
        disk = _with_room(workspace)
        files = {f"{HOME_INSIDE}/{name}": data for name, data in furnishing.files.items()}
        with ExitStack() as held:
            try:
                started = self._start(held, argv, workspace, view, limits, files)
            except OSError as error:
                raise SandboxError(f"the sandbox cannot be made: {error}") from error
            try:
                async with hold_session(started, limits, disk=disk, port=DOOR_PORT) as session:
                    yield session
            except NotStartedError as error:
                raise SandboxError(explain(str(error))) from error

    async def probe(self) -> SandboxReport:
        """See ``Sandbox.probe``."""
        return await probe_bubblewrap(self, self._account)

    def _view(self, prefix: Shown, workspace: WorkingFolder, home: str, source_date_epoch: int) -> _View:
        """Raises ConfigurationError for what must not be shown, or not there."""
        shown = environments_of(prefix)
        found = [inspect_prefix(each, homes=self._homes, account=self._account) for each in shown.prefixes]
        for folder in shown.folders:
            if folder.at:
                inspect_folder(folder.path, homes=self._homes, account=self._account)
        if shown.image is not None:
            inspect_folder(shown.image.folder, homes=self._homes, account=self._account)
        mounts = shown.mounts()
        for _, place in mounts:
            if not workspace.has_room(place):
                raise ConfigurationError(f"no folder can be shown at {place}: a link or a file is in the way", code=NOT_FREE)
        binds = dict.fromkeys(bind for each in found for bind in each.binds)
        links = dict.fromkeys(link for each in found for link in each.links)
        variables = environment(shown, home=home, source_date_epoch=source_date_epoch, workspace=workspace.path_inside)
        return _View(tuple(binds), tuple(links), variables, mounts, image=shown.image)

    async def _run_process(
        self, argv: Sequence[str], workspace: WorkingFolder, view: _View, limits: SandboxLimits
    ) -> Completed:
        disk = _with_room(workspace)
        _make_caches(view.caches, self._account)
        with ExitStack() as held:
            started = self._start(held, argv, workspace, view, limits, None)
            try:
                return await supervise(started, limits, disk=disk)
            except NotStartedError as error:
                raise SandboxError(explain(str(error))) from error

    def _start(
        self,
        held: ExitStack,
        argv: Sequence[str],
        workspace: WorkingFolder,
        view: _View,
        limits: SandboxLimits,
        home: Mapping[str, bytes] | None,
    ) -> Started:
        """``home``: files for the home of a program that is talked to, None for a command. ``held`` keeps what it needs."""
        gate = held.enter_context(StartBarrier())
        canary = {CANARY_FILE: new_canary().encode()}
        contents = {**ETC, **canary, **(home or {}), "seccomp": seccomp_filter() or b""}
        files = held.enter_context(_in_memory(contents))
        command = self._command(argv, workspace, view, limits, files, talking=home is not None)
        process = start(command, gate, cwd=_ROOT, env={}, descriptors=tuple(files.values()))
        tree = Namespace(process)
        held.callback(tree.close)
        return Started(process, gate, tree)

    def _command(
        self,
        argv: Sequence[str],
        workspace: WorkingFolder,
        view: _View,
        limits: SandboxLimits,
        files: Mapping[str, int],
        *,
        talking: bool,
    ) -> tuple[str, ...]:
        bwrap = find_bwrap()
        system = self._system if view.image is None else image_mounts(view.image)
        arguments = [str(bwrap.path), *_WALLS, *system]
        if seccomp_filter() is not None:
            arguments += ["--seccomp", str(files["seccomp"])]
        # Process 1 must die with its parent; a command that could reach into it through here could make it forget that.
        arguments += ["--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"]
        arguments += ["--dev", "/dev", "--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"]  # noqa: S108
        arguments += ["--remount-ro", "/dev"]
        arguments += ["--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", "/tmp", "--dir", _HOME]  # noqa: S108
        if talking:
            arguments += ["--size", str(limits.tmp_bytes), "--perms", "0700", "--tmpfs", HOME_INSIDE]
            for source, place in view.kept:
                arguments += ["--bind", str(source), place]
        for name, file in files.items():
            if name.startswith("/"):
                arguments += ["--perms", "0600" if name.startswith(HOME_INSIDE) else "0644", "--file", str(file), name]
        for source, inside in view.binds:
            arguments += ["--ro-bind", str(source), str(inside)]
        for link, text in view.links:
            arguments += ["--symlink", text, str(link)]
        arguments += workspace.mounts
        arguments += (word for cache in view.caches for word in _cache_mount(cache))
        for source, place in view.mounts:
            shown_at = f"{workspace.path_inside}/{place}"
            arguments += ["--ro-bind", str(source), shown_at]
            for cache in caches_of(source):
                arguments += ["--size", str(limits.tmp_bytes), "--perms", "0700", "--tmpfs", f"{shown_at}/{cache}"]
        arguments += ["--remount-ro", "/", "--chdir", workspace.path_inside]
        for name, value in view.variables.items():
            arguments += ["--setenv", name, value]
        behind = behind_gate((*restricting(limits, count_processes=True), *argv), talking=talking)
        if not self._account.switched:
            return (*arguments, "--", *behind)
        lower, kept = workspace.sources[1:], (source for source, _ in view.kept)
        image = (view.image.files,) if view.image is not None else ()
        lower = (*lower, *(cache.lower for cache in view.caches))
        shown = (*lower, *(source for source, _ in view.binds), *(source for source, _ in view.mounts), *image)
        outer = descend(bwrap, self._account, self._system, shown=shown, writable=(*workspace.sources[:1], *kept))
        return (*outer, *arguments, "--", *behind)


def _cache_mount(cache: CacheFolder) -> tuple[str, ...]:
    return ("--overlay-src", str(cache.lower), "--overlay", str(cache.upper), str(cache.work), f"{_HOME}/{cache.at}")


def _make_caches(caches: Iterable[CacheFolder], account: SandboxAccount) -> None:
    for folder in (place for cache in caches for place in (cache.written, cache.upper, cache.work)):
        folder.mkdir()
        folder.chmod(0o755)  # regardless of the umask
        if account.switched:
            os.chown(folder, account.uid, account.gid)


def _with_room(workspace: WorkingFolder) -> Path | None:
    """Return the disk folder that is written to. Raises HostError if the disk is nearly full."""
    disk = next(iter(workspace.sources), None)
    if disk is not None and disk_nearly_full(disk):
        # Not a sandbox failure: the work waits for disk space, like all work on a full disk.
        raise HostError("the disk of the workspace is nearly full; free some space", code="disk_full")
    return disk


@contextmanager
def _in_memory(contents: Mapping[str, bytes]) -> Iterator[dict[str, int]]:
    """Open files without a name, one per entry, to be read from their beginning."""
    with ExitStack() as held:
        files: dict[str, int] = {}
        for name, content in contents.items():
            file = os.memfd_create(Path(name).name)
            held.callback(os.close, file)
            os.write(file, content)
            os.lseek(file, 0, os.SEEK_SET)
            files[name] = file
        yield files
