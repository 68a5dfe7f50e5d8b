"""Read-only checkouts of commits, one per commit (see ``shared_folders.py``)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from gatewright.git.changes import TreeEntry
from gatewright.git.linked.contents import LinkedFile
from gatewright.git.linked.lfs import StoredObject
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
    async def use(self, mirror: Mirror, commit: str, linked: Sequence[LinkedFile] = ()) -> AsyncIterator[Path]:
        """The directory that holds the files of ``commit``, which stays while the context is open. It is read-only.

        ``linked`` are the linked files of the commit. Raises GitError, and DeniedError as ``TreeWriter.write``.
        """
        name = check_object_id(commit)
        if linked:
            # Settings of the repository decide which files are linked.
            keys = "".join(f"{each.path!r} {each.mode} {each.key}\n" for each in linked)
            name += f"-{hashlib.sha256(keys.encode()).hexdigest()[:16]}"
        async with self._folders.use(name, partial(self._checkout, mirror, commit, linked)) as files:
            yield files

    async def _checkout(self, mirror: Mirror, commit: str, linked: Sequence[LinkedFile], files: Path) -> None:
        await mirror.ensure(commit)
        replaced = {each.path for each in linked if each.own}
        await self._fill(mirror, [each for each in await mirror.files(commit) if each.path not in replaced], files)
        for source, some in by_mirror(linked):
            await self._fill(source, some, files)

    async def _fill(self, mirror: Mirror, entries: Sequence[TreeEntry | LinkedFile], files: Path) -> None:
        """The next batch is read while one is written. Two writers would take longer: they wait for the interpreter."""
        writing: asyncio.Task[None] | None = None
        try:
            for batch in _batches(entries):
                contents = await contents_of(mirror, batch)
                if writing is not None:
                    await writing
                writing = asyncio.create_task(finish(self._write_batch, files, batch, contents))
        finally:
            if writing is not None:
                await writing

    def _write_batch(
        self, files: Path, batch: Sequence[TreeEntry | LinkedFile], contents: Mapping[str, bytes | StoredObject]
    ) -> None:
        with TreeWriter(files, self._account) as writer:
            for entry in batch:
                writer.write(entry.path, entry.mode, contents.get(_entry_key(entry), b""))


async def contents_of(mirror: Mirror, entries: Sequence[TreeEntry | LinkedFile]) -> dict[str, bytes | StoredObject]:
    """Return the contents of entries of one mirror, by object id or key. Raises GitError."""
    stored = {each.key: each.stored for each in entries if isinstance(each, LinkedFile) and each.stored is not None}
    blobs = {each.object_id for each in entries if each.mode != SUBMODULE and _entry_key(each) not in stored}
    return {**(await mirror.blobs(blobs) if blobs else {}), **stored}


def by_mirror(linked: Sequence[LinkedFile]) -> Iterator[tuple[Mirror, list[LinkedFile]]]:
    """Yield the linked files of each mirror."""
    groups: dict[Path, list[LinkedFile]] = {}
    for each in linked:
        groups.setdefault(each.mirror.path, []).append(each)
    yield from ((some[0].mirror, some) for some in groups.values())


def _entry_key(entry: TreeEntry | LinkedFile) -> str:
    return entry.key if isinstance(entry, LinkedFile) else entry.object_id


def _batches(entries: Sequence[TreeEntry | LinkedFile]) -> Iterator[list[TreeEntry | LinkedFile]]:
    batch: list[TreeEntry | LinkedFile] = []
    size = 0
    for entry in entries:
        held = 0 if isinstance(entry, LinkedFile) and entry.stored is not None else entry.size
        if batch and (size + held > _BATCH_BYTES or len(batch) >= _BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += held
    if batch:
        yield batch
