"""Publishes a sealed bundle to a store: durable before anything refers to it, and only once per run.

Every step may be repeated: the work of a killed process is found and reused. The store is not trusted: all written data is read
back and compared before it is accepted.
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
    ObjectCreator,
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
    """``locked``: policy requires the store to lock sealed bundles. ``trusted`` are the currently trusted keys."""

    def __init__(self, store: ObjectStore, scratch: Path, trusted: Callable[[], Sequence[PublicKey]], *, locked: bool) -> None:
        self._store = store
        self._scratch = scratch
        self._trusted = trusted
        self._locked = locked
        self._checked = False

    def check(self) -> None:
        """Check that the store is reachable, writable and refuses to overwrite objects.

        Once it has refused a second write, later checks only read.

        Raises:
            StoreError: a check fails (``store_not_write_once`` when it overwrites objects).
        """
        if self._checked:
            self._store.read(WRITE_ONCE)
            return
        check_write_once(self._store)
        self._checked = True

    def standing(self, run_id: str) -> BundlePointer | None:
        """Return the pointer to the run's bundle in the store; None when there is none.

        Raises:
            StoreError: the store cannot be read.
        """
        data = self._store.read(pointer_name(run_id))
        return read_pointer(data, run_id) if data is not None else None

    def is_pruned(self, run_id: str, manifest_sha256: str) -> bool:
        """Return whether a trusted key has signed a tombstone of this bundle.

        Raises:
            StoreError: the store cannot be read.
        """
        data = self._store.read(tombstone_name(run_id))
        if data is None:
            return False
        try:
            stone, _ = tombstone.open_tombstone(data, self._trusted())
        except GatewrightError:
            return False
        return (stone.run_id, stone.manifest_sha256) == (run_id, manifest_sha256)

    def put(self, folder: Path) -> BundlePointer:
        """Publish the sealed bundle in ``folder``.

        1. Write the archive under the digest of its manifest.
        2. Read it back: the same bytes, and locked where required.
        3. Write the pointer of the run, once.
        4. Read it back.

        Returns:
            The pointer in the store, which may be another writer's.

        Raises:
            StoreError: the store cannot be used or holds other data.
            OSError: the archive cannot be written.
            UnavailableError: another process uses the folder (``bundle_unwritable``).
        """
        if not self._checked:
            self.check()
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="put-") as scratch:
            packed = Path(scratch) / "bundle.zip"
            pointer = _pack_folder(folder, packed)
            name = archive_name(pointer.manifest_sha256)
            self._store.create(name, packed, locked=self._locked)  # 1
        self._check_stored(pointer)  # 2
        self._store.create(pointer_name(pointer.run_id), pointer.encoded(), locked=self._locked)  # 3
        stands = self.standing(pointer.run_id)  # 4
        if stands is None:
            raise StoreError(
                f"the store has lost the pointer of {pointer.run_id} after it took it", code="stored_bundle_differs"
            )
        return stands

    def adopt(self, pointer: BundlePointer) -> None:
        """Accept another writer's bundle as the bundle of the run, after full verification.

        Another gatekeeper may have sealed it with another key of the ring.

        Raises:
            StoreError: it does not verify, or the store cannot be read.
            OSError: it cannot be stored here.
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

    def _check_stored(self, pointer: BundlePointer) -> None:
        """Check that the store has exactly the written bytes under this name (step 2 of ``put``)."""
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - not a path of ours
            came = self._store.download(archive_name(pointer.manifest_sha256), nothing, MAX_ARCHIVE_BYTES)
        if came is None or (came.size, came.sha256) != (pointer.size, pointer.sha256):
            found = "nothing" if came is None else "other bytes"
            words = f"the store took the bundle of {pointer.run_id}, and gives {found} for it"
            raise StoreError(words, code="stored_bundle_differs")
        if self._locked and not _is_later(came.lock.until):
            words = f"the store took the bundle of {pointer.run_id}, and has not locked it"
            raise StoreError(words, code="store_lock_refused")


def check_write_once(store: ObjectCreator) -> None:
    """Check that a second write of an object is refused.

    Raises:
        StoreError: it is not (``store_not_write_once``), and errors of the store.
    """
    # If the mark exists already, the first write must be refused.
    if store.create(WRITE_ONCE, _MARK) and store.create(WRITE_ONCE, _MARK):
        words = "the store lets an object be written over: it has to know conditional writes (If-None-Match)"
        raise StoreError(words, code="store_not_write_once")


def _pack_folder(folder: Path, packed: Path) -> BundlePointer:
    """Write the archive of the sealed bundle in ``folder`` and return its pointer.

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
