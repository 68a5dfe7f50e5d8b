"""Removal of a bundle, leaving a signed tombstone; after a crash at any step, repeating it completes it.

Until a rename puts the tombstone into the folder, the bundle is complete and verifies; from then on it is pruned, even if
files are left. No link is followed, and nothing outside the folder is touched.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gatewright.app.retention.inventory import InventoryItem, look_at
from gatewright.contracts import Tombstone
from gatewright.errors import UnavailableError
from gatewright.evidence import tombstone
from gatewright.evidence.disk import Disk
from gatewright.evidence.signing.envelopes import Signer
from gatewright.file_locks import lock_folder


class PruningDisk(Disk):
    """The steps of removing, each relative to an open folder: a name that is swapped for a link leads nowhere."""

    def unlink_in(self, folder: int, name: str) -> None:
        os.unlink(name, dir_fd=folder)

    def remove_folder_in(self, folder: int, name: str) -> None:
        os.rmdir(name, dir_fd=folder)


def prune(root: Path, entry: InventoryItem, stone: Tombstone, signer: Signer, disk: PruningDisk | None = None) -> None:
    """Remove the sealed bundle ``entry`` of ``root``.

    1. lock it and check that it is unchanged  2. write the tombstone beside it, durably  3. rename it into the bundle  4.
    remove all else. Raises UnavailableError (``bundle_busy``, ``bundle_changed``, ``bundle_unwritable``).
    """
    disk = disk or PruningDisk()
    with _ours(entry.folder) as folder:  # 1
        now = look_at(entry.folder)
        if (now.state, now.manifest_sha256) != ("sealed", stone.manifest_sha256):
            raise UnavailableError(f"{entry.run_id} is not what it was any more", code="bundle_changed")
        draft = root / f".{entry.run_id}.tombstone.draft"
        disk.create(draft, tombstone.sign_tombstone(stone, signer))  # 2
        disk.sync([draft, root])
        disk.rename(draft, entry.folder / tombstone.FILE)  # 3
        disk.sync([entry.folder, root])
        _clear(folder, disk)  # 4
        disk.sync([entry.folder])


def finish(entry: InventoryItem, disk: PruningDisk | None = None) -> None:
    """Remove all files beside a tombstone. Raises UnavailableError (``bundle_busy``, ``bundle_unwritable``)."""
    disk = disk or PruningDisk()
    with _ours(entry.folder) as folder:
        if tombstone.stands(entry.folder):
            _clear(folder, disk)
            disk.sync([entry.folder])


def _clear(folder: int, disk: PruningDisk) -> None:
    """Remove everything below the open folder except its tombstone, innermost first."""
    for _, folders, names, fd in os.fwalk(".", topdown=False, follow_symlinks=False, dir_fd=folder):
        top = os.path.sameopenfile(fd, folder)
        for name in names:
            if not (top and name == tombstone.FILE):
                disk.unlink_in(fd, name)
        for name in folders:
            if _is_folder(name, fd):
                disk.remove_folder_in(fd, name)
            else:
                disk.unlink_in(fd, name)


def _is_folder(name: str, folder: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


@contextmanager
def _ours(folder: Path) -> Iterator[int]:
    """The folder, locked as the writer of bundles locks it. Raises UnavailableError."""
    try:
        fd = lock_folder(folder)
        try:
            yield fd
        finally:
            os.close(fd)
    except BlockingIOError as error:
        raise UnavailableError(f"{folder} is being written", code="bundle_busy") from error
    except OSError as error:
        raise UnavailableError(f"{folder}: {error.strerror or error}", code="bundle_unwritable") from error
