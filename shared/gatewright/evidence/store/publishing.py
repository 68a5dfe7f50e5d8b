"""Puts a sealed bundle into a store so that it is there for good before anything says so, and only once for each run.

Every step may be repeated: what a process that was killed has left is found to be there. The store's word is taken for nothing:
what was written is read back and compared before it counts.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gatewright.errors import GatewrightError, StoreError, UnavailableError
from gatewright.evidence import tombstone
from gatewright.evidence.signing.keys import PublicKey
from gatewright.evidence.store import archive
from gatewright.evidence.store.fetching import fetch_archive
from gatewright.evidence.store.objects import (
    MAX_ARCHIVE_BYTES,
    WRITE_ONCE,
    ObjectStore,
    archive_name,
    pointer_name,
    tombstone_name,
)
from gatewright.evidence.store.pointer import BundlePointer, pointer_of, read_pointer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import SEAL_PATIENCE, UNWRITABLE
from gatewright.file_locks import lock_folder

_MARK = b'{"gatewright": "a second write of this object is refused"}\n'


class BundlePublisher:
    """``locked``: the policy asks the store to lock what is sealed. ``trusted`` are the keys that count now."""

    def __init__(self, store: ObjectStore, scratch: Path, trusted: Callable[[], Sequence[PublicKey]], *, locked: bool) -> None:
        self._store = store
        self._scratch = scratch
        self._trusted = trusted
        self._locked = locked
        self._checked = False

    def check(self) -> None:
        """Raises StoreError: it cannot be had, cannot be written, or lets an object be written over.

        (``store_not_write_once``) Once it has been seen to refuse a second write, it is only read.
        """
        if self._checked:
            self._store.read(WRITE_ONCE)
            return
        # Where the mark stands already, the first write is the one that must be refused.
        if self._store.create(WRITE_ONCE, _MARK) and self._store.create(WRITE_ONCE, _MARK):
            words = "the store lets an object be written over: it has to know conditional writes (If-None-Match)"
            raise StoreError(words, code="store_not_write_once")
        self._checked = True

    def standing(self, run_id: str) -> BundlePointer | None:
        """Which bundle the store says is the run's; None while there is none. Raises StoreError."""
        data = self._store.read(pointer_name(run_id))
        return read_pointer(data, run_id) if data is not None else None

    def is_pruned(self, run_id: str, manifest_sha256: str) -> bool:
        """Whether a tombstone of a trusted key stands for this bundle. Raises StoreError."""
        data = self._store.read(tombstone_name(run_id))
        if data is None:
            return False
        try:
            stone, _ = tombstone.open_tombstone(data, self._trusted())
        except GatewrightError:
            return False
        return (stone.run_id, stone.manifest_sha256) == (run_id, manifest_sha256)

    def put(self, folder: Path) -> BundlePointer:
        """Have the store hold the sealed bundle in ``folder``; the pointer that stands then, which may be another writer's.

        1. the archive is written under the digest of its manifest  2. it is read back: these bytes, and locked where that was
        asked for  3. the pointer of the run is written, once  4. it is read back. Raises StoreError, OSError,
        UnavailableError (``bundle_unwritable``).
        """
        if not self._checked:
            self.check()
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="put-") as scratch:
            packed = Path(scratch) / "bundle.zip"
            pointer = _pack_folder(folder, packed)
            name = archive_name(pointer.manifest_sha256)
            self._store.create(name, packed, locked=self._locked)  # 1
        self._look(pointer)  # 2
        self._store.create(pointer_name(pointer.run_id), pointer.encoded(), locked=self._locked)  # 3
        stands = self.standing(pointer.run_id)  # 4
        if stands is None:
            raise StoreError(
                f"the store has lost the pointer of {pointer.run_id} after it took it", code="stored_bundle_differs"
            )
        return stands

    def adopt(self, pointer: BundlePointer) -> None:
        """Take the bundle that another writer has put there for the one of the run. Raises StoreError, OSError.

        Another gatekeeper may have sealed it, with another key of the ring; it has to verify in full.
        """
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="seen-") as scratch:
            folder = Path(scratch) / pointer.run_id
            fetch_archive(self._store, pointer, folder)
            result = verify(folder, self._trusted())
        if not result.ok or result.manifest_sha256 != pointer.manifest_sha256 or result.signer != pointer.signer:
            code = next((finding.code for finding in result.findings), "signer_differs")
            words = f"the store holds a bundle of {pointer.run_id} that does not verify ({code}): it was not sealed here"
            raise StoreError(words, code="stored_bundle_differs")

    def _look(self, pointer: BundlePointer) -> None:
        """2. What the store holds under this name is what was written."""
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - not a path of ours
            came = self._store.download(archive_name(pointer.manifest_sha256), nothing, MAX_ARCHIVE_BYTES)
        if came is None or (came.size, came.sha256) != (pointer.size, pointer.sha256):
            found = "nothing" if came is None else "other bytes"
            words = f"the store took the bundle of {pointer.run_id}, and gives {found} for it"
            raise StoreError(words, code="stored_bundle_differs")
        if self._locked and not _is_later(came.lock.until):
            words = f"the store took the bundle of {pointer.run_id}, and has not locked it"
            raise StoreError(words, code="store_lock_refused")


def _pack_folder(folder: Path, packed: Path) -> BundlePointer:
    """Write the archive of the sealed bundle in ``folder``; its pointer.

    The folder is locked meanwhile, so that no process replaces or removes it: an archive with the name of one bundle and the
    bytes of another could never be replaced. Raises UnavailableError (``bundle_unwritable``) while another process holds it.
    """
    try:
        held = lock_folder(folder, seconds=SEAL_PATIENCE)
    except BlockingIOError:
        raise UnavailableError(f"{folder}: another process has had it for {SEAL_PATIENCE:g} s", code=UNWRITABLE) from None
    try:
        archive.pack(folder, packed)
        with packed.open("rb") as file:
            return pointer_of(folder, packed.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    finally:
        os.close(held)


def _is_later(until: str) -> bool:
    return bool(until) and datetime.fromisoformat(until) > datetime.now(UTC)
