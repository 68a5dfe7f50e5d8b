"""Read-only checkouts of commits, one per commit, made once and shared by all tasks of all processes that use the same root.

They are made beside their place and renamed into it, so that what is there is whole; they are kept for as long as the machine
does not restart (a power cut may leave files half written), the longest unused ones go first, and none goes
while a task uses it.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gatewright.git.changes import TreeEntry
from gatewright.git.mirror import Mirror
from gatewright.git.modes import SUBMODULE
from gatewright.git.refs import check_object_id
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.holds import hold, longest_unused, remove_unless_held, wait_for_hold
from gatewright.workspace.removal import remove_tree
from gatewright.workspace.threads import finish
from gatewright.workspace.tree_writer import TreeWriter

_FILES: Final = "files"
#: Of one batch. Two are in memory at a time.
_BATCH_BYTES: Final = 8 << 20
_BATCH_FILES: Final = 4096


class Baselines:
    """Checkouts below ``root``, at most ``most`` of them unless more are in use; their files belong to ``account``."""

    def __init__(self, root: Path, account: SandboxAccount, *, most: int) -> None:
        self._root = root
        self._account = account
        self._most = most

    @asynccontextmanager
    async def use(self, mirror: Mirror, commit: str) -> AsyncIterator[Path]:
        """The directory that holds the files of ``commit``, which stays while the context is open. It is read-only.

        Raises GitError, and DeniedError (``unsafe_path``) for a tree that cannot be written safely.
        """
        place = self._root / check_object_id(commit)
        while (held := hold(place, exclusive=False)) is None:
            await self._make(mirror, commit, place)
            await asyncio.sleep(0)  # another process may be removing it just now
        try:
            os.utime(place)  # for the search for the longest unused one
            yield place / _FILES
        finally:
            os.close(held)

    async def _make(self, mirror: Mirror, commit: str, place: Path) -> None:
        makers = self._root / f".makers-{commit[:2]}"
        held = await wait_for_hold(makers)
        fresh = makers / uuid.uuid4().hex
        try:
            if not await finish(self._begin, place, fresh):
                return
            await mirror.ensure(commit)
            await self._fill(mirror, commit, fresh / _FILES)
            fresh.rename(place)
        finally:
            await finish(remove_tree, fresh)
            os.close(held)
        await finish(self._make_room, place)

    def _begin(self, place: Path, fresh: Path) -> bool:
        """False when another process has made the checkout meanwhile."""
        if place.exists():
            return False
        for left in fresh.parent.iterdir():  # by makers that died
            remove_tree(left)
        fresh.mkdir(mode=0o755)
        files = fresh / _FILES
        files.mkdir()
        files.chmod(0o755)
        if self._account.switched:
            os.chown(files, self._account.uid, self._account.gid)
        return True

    async def _fill(self, mirror: Mirror, commit: str, files: Path) -> None:
        """The next batch is read while one is written. Two writers would take longer: they wait for the interpreter."""
        writing: asyncio.Task[None] | None = None
        try:
            for batch in _batches(await mirror.files(commit)):
                contents = await mirror.blobs({entry.object_id for entry in batch if entry.mode != SUBMODULE})
                if writing is not None:
                    await writing
                writing = asyncio.create_task(finish(self._write, files, batch, contents))
        finally:
            if writing is not None:
                await writing

    def _write(self, files: Path, batch: Sequence[TreeEntry], contents: dict[str, bytes]) -> None:
        with TreeWriter(files, self._account) as writer:
            for entry in batch:
                writer.write(entry.path, entry.mode, contents.get(entry.object_id, b""))

    def _make_room(self, newest: Path) -> None:
        kept = longest_unused(self._root)
        for place in kept[: max(0, len(kept) - self._most)]:
            if place != newest:
                remove_unless_held(place)


def _batches(entries: Sequence[TreeEntry]) -> Iterator[list[TreeEntry]]:
    batch: list[TreeEntry] = []
    size = 0
    for entry in entries:
        if batch and (size + entry.size > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch
