"""Read-only checkouts of commits, one per commit (see ``shared_folders.py``)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from gatewright.git.changes import TreeEntry
from gatewright.git.mirror import Mirror
from gatewright.git.modes import SUBMODULE
from gatewright.git.refs import check_object_id
from gatewright.sandbox.account import SandboxAccount
from gatewright.workspace.shared_folders import SharedFolders
from gatewright.workspace.threads import finish
from gatewright.workspace.tree_writer import TreeWriter

#: Limits of one batch. Two are in memory at a time.
_BATCH_BYTES: Final = 8 << 20
_BATCH_FILES: Final = 4096


class Baselines:
    """Checkouts below ``root``, at most ``most`` of them unless more are in use; their files belong to ``account``."""

    def __init__(self, root: Path, account: SandboxAccount, *, most: int) -> None:
        self._folders = SharedFolders(root, account, most=most)
        self._account = account

    @asynccontextmanager
    async def use(self, mirror: Mirror, commit: str) -> AsyncIterator[Path]:
        """The directory that holds the files of ``commit``, which stays while the context is open. It is read-only.

        Raises GitError, and DeniedError (``unsafe_path``) for a tree that cannot be written safely.
        """
        async with self._folders.use(check_object_id(commit), partial(self._checkout, mirror, commit)) as files:
            yield files

    async def _checkout(self, mirror: Mirror, commit: str, files: Path) -> None:
        await mirror.ensure(commit)
        await self._fill(mirror, commit, files)

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
