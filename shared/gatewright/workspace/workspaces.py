"""Opening of working folders for commands: cheap, private, and removed afterwards.

With overlays a workspace costs what the task changes: the baseline's checkout is shared and read-only, the candidate's
difference is a layer on it, and the command writes to an upper layer of its own. Without overlays it is a copy.

Below the root there is one folder per boot of the machine: files of an earlier boot may be incomplete.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import time
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, Self

from gatewright.errors import UnavailableError
from gatewright.git.changes import TreeChange
from gatewright.git.linked.contents import LinkedFile, linked_changes, linked_files, may_link
from gatewright.git.linked.lfs import StoredObject
from gatewright.git.mirror import Mirror
from gatewright.git.modes import EXECUTABLE, FILE, SUBMODULE, SYMLINK
from gatewright.sandbox.account import SandboxAccount, sandbox_account
from gatewright.sandbox.port import Sandbox
from gatewright.workspace.baselines import Baselines, by_mirror, contents_of
from gatewright.workspace.bytecode import Bytecode, lay_bytecode
from gatewright.workspace.candidate import overlay_fault, write_layer
from gatewright.workspace.difference import ChangeBounds
from gatewright.workspace.history import Histories, WantedHistory, hand_over
from gatewright.workspace.holds import hold
from gatewright.workspace.layers import Layers
from gatewright.workspace.planting import plant
from gatewright.workspace.removal import remove_tree
from gatewright.workspace.threads import finish
from gatewright.workspace.tree_writer import TreeWriter
from gatewright.workspace.workspace import Workspace

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MOST_BASELINES: Final = 16
#: Trees whose linked files are remembered, and for how long.
_MOST_LINKED: Final = 16
_LINKED_SECONDS: Final = 600.0


class _Prepared(NamedTuple):
    """``tasks`` is the folder of open workspaces."""

    tasks: Path
    baselines: Baselines
    histories: Histories
    overlay: bool


class Workspaces:
    """All workspaces of one role below ``root``; several processes may share it. ``account`` owns the files.

    ``overlay``: whether to use overlays; None tries it, once. ``most_baselines``: the number of unused checkouts to keep.
    ``history``: that of workspaces that are opened without one.
    """

    def __init__(
        self,
        root: Path,
        *,
        overlay: bool | None = None,
        account: SandboxAccount | None = None,
        most_baselines: int = _MOST_BASELINES,
        bounds: ChangeBounds | None = None,
        history: WantedHistory | None = None,
    ) -> None:
        self._root = root.absolute()
        self._overlay = overlay
        self._account = account or sandbox_account()
        self._most_baselines = most_baselines
        self._bounds = bounds or ChangeBounds()
        self._history = history
        self._fault = ""
        self._prepared: _Prepared | None = None
        self._preparing = asyncio.Lock()
        self._linked: dict[tuple[Path, str], tuple[float, tuple[LinkedFile, ...]]] = {}

    @classmethod
    def for_sandbox(cls, root: Path, sandbox: Sandbox, history: WantedHistory | None = None) -> Self:
        """Return workspaces that ``sandbox`` can use: overlays need one to be mounted."""
        if sandbox.name == "none":
            account = SandboxAccount(os.geteuid(), os.getegid(), switched=False)
            return cls(root, overlay=False, account=account, history=history)
        return cls(root, history=history)

    @property
    def overlay_fault(self) -> str:
        """Return why overlays are not used although the settings allow them; empty if they are, or before the first
        workspace."""
        return self._fault

    async def prepare(self) -> str:
        """Prepare in advance; return how workspaces are made: overlays, or copies and why."""
        prepared = await self._prepare()
        return "overlays" if prepared.overlay else f"copies: {self._fault or 'overlays are not wanted'}"

    async def overlays(self) -> bool:
        """Return whether workspaces are overlays unless copies are requested. Raises UnavailableError."""
        return (await self._prepare()).overlay

    @asynccontextmanager
    async def open(
        self,
        mirror: Mirror,
        baseline: str,
        tree: str | None = None,
        *,
        plain: bool = False,
        planted: Mapping[bytes, bytes] | None = None,
        replaced: Mapping[bytes, bytes] | None = None,
        compiled: Mapping[bytes, Bytecode] | None = None,
        history: WantedHistory | None = None,
        is_hidden: Callable[[bytes], bool] | None = None,
    ) -> AsyncIterator[Workspace]:
        """Yield a workspace with ``tree`` (by default that of the commit ``baseline``), removed when the context ends.

        Args:
            plain: a copy, even if overlays are available; it costs the size of the repository, and allows all renames.
            planted: files by path, added to the tree's; their changes are ignored.
            replaced: other contents, by path, of files in which ``tree`` differs from the baseline; in this workspace only.
            compiled: bytecode of the baseline's files, by path; laid beside those that ``tree`` shares, in overlays.
            history: a ``.git`` with a copy of the last commits.
            is_hidden: judges paths in submodules; hidden files are left out.

        Raises:
            GitError: a commit or tree is missing.
            UnavailableError: ``workspace_unavailable``.
            DeniedError: ``unsafe_path``, ``place_not_free``, and the errors of ``linked_files``.
        """
        prepared = await self._prepare()
        async with AsyncExitStack() as held:
            await mirror.ensure(baseline)
            linked = await self._linked_files(mirror, baseline)
            checkout = await held.enter_async_context(prepared.baselines.use(mirror, baseline, linked))
            changes = () if tree is None else await mirror.changes(baseline, tree)
            wanted = {change.new_id for change in changes if change.status != "D" and change.new_mode != SUBMODULE}
            blobs = await mirror.blobs(wanted) if wanted else {}
            shown = await self._linked_files(mirror, tree) if tree is not None and may_link(changes, blobs) else linked
            shown = tuple(each for each in shown if each.own or is_hidden is None or not is_hidden(each.path))
            contents: dict[str, bytes | StoredObject] = {**blobs}
            if shown != linked:
                changes = linked_changes(linked, shown, changes)
                named = {change.new_id for change in changes}
                contents |= await mirror.blobs({each.object_id for each in linked if each.own} & named)
                for source, some in by_mirror([each for each in shown if each.key in named]):
                    contents |= await contents_of(source, some)
            if replaced:
                changes, contents = _with_others(changes, contents, replaced)
            task = await held.enter_async_context(_task_folder(prepared.tasks))
            lower = await finish(self._layers, task, checkout, changes, contents, planted or {})
            overlay = prepared.overlay and not plain
            if compiled and overlay:
                lower = await finish(self._with_bytecode, task, lower, compiled, {change.path for change in changes})
            past, history = None, history or self._history
            if history is not None:
                replaced_files = frozenset(each.path for each in linked if each.own)
                past = await held.enter_async_context(prepared.histories.use(mirror, baseline, history, replaced_files))
            yield await finish(self._furnish, task, lower, frozenset(planted or ()), past, overlay=overlay)

    async def _linked_files(self, mirror: Mirror, tree: str) -> tuple[LinkedFile, ...]:
        """Return what ``linked_files`` does, remembered for less time than a mirror keeps an unused commit."""
        key, now = (mirror.path, tree), time.monotonic()
        known = self._linked.get(key)
        if known is None or now - known[0] > _LINKED_SECONDS:
            known = now, await linked_files(mirror, tree)
            self._linked = dict([*list(self._linked.items())[1 - _MOST_LINKED :], (key, known)])
        return known[1]

    def _layers(
        self,
        task: Path,
        checkout: Path,
        changes: Sequence[TreeChange],
        contents: Mapping[str, bytes | StoredObject],
        planted: Mapping[bytes, bytes],
    ) -> tuple[Path, ...]:
        """Topmost first."""
        lower: tuple[Path, ...] = (checkout,)
        if changes:
            layer = task / "layer"
            self._make_folders((layer,))
            write_layer(layer, checkout, changes, contents, self._account)
            lower = (layer, *lower)
        if planted:
            layer = task / "planted"
            self._make_folders((layer,))
            plant(layer, lower, planted, self._account)
            lower = (layer, *lower)
        return lower

    def _with_bytecode(
        self, task: Path, lower: tuple[Path, ...], compiled: Mapping[bytes, Bytecode], changed: Collection[bytes]
    ) -> tuple[Path, ...]:
        layer = task / "bytecode"
        self._make_folders((layer,))
        lay_bytecode(layer, lower, compiled, changed, self._account)
        return (layer, *lower)

    def _furnish(
        self, task: Path, lower: tuple[Path, ...], planted: frozenset[bytes], history: Path | None = None, *, overlay: bool
    ) -> Workspace:
        workspace = Workspace(task, lower, overlay, self._bounds, planted, history)
        writable = workspace.upper.parent
        self._make_folders((writable, workspace.upper, writable / "work", workspace.scratch))
        if history is not None:
            self._make_folders((workspace.written_history, writable / "history-work"))
        if not overlay:
            copy_stack(lower, workspace.upper, self._account)
            if history is not None:
                shutil.copytree(history, workspace.written_history, dirs_exist_ok=True)
                hand_over(workspace.written_history, self._account)
        return workspace

    def _make_folders(self, folders: Iterable[Path]) -> None:
        for folder in folders:
            folder.mkdir()
            folder.chmod(0o755)  # regardless of the umask: it is the command's working directory
            if self._account.switched:
                os.chown(folder, self._account.uid, self._account.gid)

    async def _prepare(self) -> _Prepared:
        async with self._preparing:
            if self._prepared is None:
                self._prepared = await self._start()
            return self._prepared

    async def _start(self) -> _Prepared:
        boot = self._root / _BOOT_ID.read_text("ascii").strip()
        tasks = boot / "tasks"
        await finish(_clear, self._root, boot, tasks)
        overlay = self._overlay
        if overlay is None:
            async with _task_folder(tasks) as task:
                checkout = task / "checkout"
                await finish(self._make_folders, (checkout,))
                trial = await finish(self._furnish, task, (checkout,), frozenset[bytes](), overlay=True)
                self._fault = await overlay_fault(trial, self._account)
            overlay = not self._fault
        most = self._most_baselines
        baselines = Baselines(boot / "baselines", self._account, most=most)
        return _Prepared(tasks, baselines, Histories(boot / "histories", self._account, most=most), overlay)


def _with_others(
    changes: Sequence[TreeChange], contents: Mapping[str, bytes | StoredObject], others: Mapping[bytes, bytes]
) -> tuple[tuple[TreeChange, ...], dict[str, bytes | StoredObject]]:
    """Replace contents under new ids: two files may share one blob. A path outside ``changes`` is ignored."""
    named = {each.path: f"in place of file {number}" for number, each in enumerate(changes) if each.path in others}
    changed = tuple(replace(each, new_id=named.get(each.path, each.new_id)) for each in changes)
    return changed, {**contents, **{name: others[path] for path, name in named.items()}}


@asynccontextmanager
async def _task_folder(tasks: Path) -> AsyncIterator[Path]:
    """Yield a new folder that no clean-up of another process removes; it is removed at the end with any content."""
    made: list[tuple[Path, int]] = []
    try:
        # Recorded by the thread that makes it: a concurrent cancellation would lose its result.
        await finish(lambda: made.append(_new_task(tasks)))
        yield made[0][0]
    finally:
        for task, held in made:
            try:
                await finish(remove_tree, task)
            finally:
                os.close(held)


def _new_task(tasks: Path) -> tuple[Path, int]:
    for _ in range(100):
        task = tasks / uuid.uuid4().hex
        task.mkdir(mode=0o755)
        # Between the two calls it looks like one that a dead process left, and may be cleared away.
        if (held := hold(task, exclusive=False)) is not None:
            return task, held
    raise UnavailableError("no folder for a workspace can be kept", code="workspace_unavailable")


def _clear(root: Path, boot: Path, tasks: Path) -> None:
    """Remove what earlier boots, and processes of this boot that died, have left."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    tasks.mkdir(mode=0o755, parents=True, exist_ok=True)
    for left in (*(place for place in root.iterdir() if place != boot), *tasks.iterdir()):
        if (held := hold(left, exclusive=True)) is not None:
            try:
                remove_tree(left)
            finally:
                os.close(held)


# Copying of a stack of layers into one directory, for hosts without overlays. Copies, never hard links: a command could write
# through a link into the shared baseline.
_CHUNK = 1 << 20


def copy_stack(lower: tuple[Path, ...], target: Path, account: SandboxAccount) -> None:
    """Fill the empty directory ``target`` with all visible files of ``lower`` (topmost first); they belong to ``account``."""
    layers = Layers(lower)
    with TreeWriter(target, account) as writer:
        for parts in sorted(layers.files_below(())):
            status = layers.status(parts)
            if status is None:
                continue
            path = os.fsencode("/".join(parts))
            if stat.S_ISLNK(status.st_mode):
                writer.write(path, SYMLINK, layers.target(parts))
            else:
                with layers.opened(parts) as file:
                    mode = EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE
                    writer.write(path, mode, _read_all(file))


def _read_all(file: int) -> bytes:
    parts = []
    while part := os.read(file, _CHUNK):
        parts.append(part)
    return b"".join(parts)
