"""Fetches a run's bundle from a store into a new folder. The bundle must still be verified: a store proves nothing."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from gatewright.errors import HostError, StoreError
from gatewright.evidence import layout, tombstone
from gatewright.evidence.store import archive
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.objects import (
    MAX_ARCHIVE_BYTES,
    ObjectReader,
    ObjectStore,
    archive_name,
    pointer_name,
    tombstone_name,
)
from gatewright.evidence.store.pointer import BundlePointer, read_pointer
from gatewright.evidence.store.policy import StoreEntry, StoresPolicy
from gatewright.evidence.store.s3 import S3Store
from gatewright.evidence.store.static_export import StaticExport


def open_reader(address: StoreAddress, policy: StoresPolicy) -> ObjectReader:
    """Return a reader of the store at ``address``.

    Raises:
        StoreError: the store cannot be used.
    """
    entry = policy.entry(address)
    return _writable(address, entry) if address.scheme == "s3" else StaticExport(address, entry)


def open_store(address: StoreAddress, policy: StoresPolicy) -> ObjectStore:
    """Return a writable client of the store at ``address``.

    Raises:
        StoreError: the store is read-only (``store_read_only``) or cannot be used.
    """
    if address.scheme != "s3":
        raise StoreError(f"{address}: a store is written by its S3 address alone", code="store_read_only")
    return _writable(address, policy.entry(address))


def _writable(address: StoreAddress, entry: StoreEntry) -> ObjectStore:
    return S3Store.open(address, entry)


def fetch(store: ObjectReader, run_id: str, into: Path) -> Path:
    """Fetch the bundle of a run into the new folder ``into / run_id``; for a pruned one, its tombstone.

    1. The pointer names the archive.
    2. The archive is downloaded, up to the size in the pointer, and its digest checked.
    3. Only plain files are unpacked.
    4. The manifest is the one that the pointer names.

    Raises:
        StoreError: ``stored_bundle_missing``, ``stored_bundle_altered``, ``stored_bundle_too_large``, and errors of the store.
        HostError: the folder cannot be written.
    """
    pointer, stone = stored_pointer(store, run_id), store.read(tombstone_name(run_id))  # 1
    folder = into / layout.safe(run_id)
    try:
        into.mkdir(parents=True, exist_ok=True)
        fetch_archive(store, pointer, folder, gone=stone is not None)
        if stone is not None:
            folder.mkdir(exist_ok=True)
            (folder / tombstone.FILE).write_bytes(stone)
    except OSError as error:
        raise HostError(f"{into}: {error.strerror or error}") from error
    return folder


def stored_pointer(store: ObjectReader, run_id: str) -> BundlePointer:
    """Return the pointer to the bundle of a run.

    Raises:
        StoreError: there is none (``stored_bundle_missing``), and as ``read_pointer``.
    """
    found = store.read(pointer_name(run_id))
    if found is None:
        raise StoreError(f"the store holds no bundle of {run_id}", code="stored_bundle_missing")
    return read_pointer(found, run_id)


def fetch_archive(store: ObjectReader, pointer: BundlePointer, folder: Path, *, gone: bool = False) -> None:
    """Apply steps 2 to 4 of ``fetch``.

    Args:
        store: the store.
        pointer: the pointer to the bundle.
        folder: the new folder.
        gone: whether the archive may be missing.

    Raises:
        StoreError: as ``fetch``.
        OSError: the folder cannot be written.
    """
    if pointer.size > MAX_ARCHIVE_BYTES:
        raise StoreError(
            f"the pointer of {pointer.run_id} claims {pointer.size} bytes, above the limit", code="stored_bundle_too_large"
        )
    with tempfile.NamedTemporaryFile(dir=folder.parent, prefix=".fetched-", suffix=".zip") as file:
        came = store.download(archive_name(pointer.manifest_sha256), file.file, pointer.size)  # 2
        if came is None and gone:
            return
        if came is None:
            words = f"the store has lost the bundle of {pointer.run_id}: `gatewright replay --from-ledger` makes it again"
            raise StoreError(words, code="stored_bundle_missing")
        if (came.size, came.sha256) != (pointer.size, pointer.sha256):
            words = f"the store gave other bytes for the bundle of {pointer.run_id} than were written"
            raise StoreError(words, code="stored_bundle_altered")
        file.flush()
        archive.unpack(Path(file.name), folder)  # 3
    manifest = folder / layout.MANIFEST
    if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != pointer.manifest_sha256:  # 4
        raise StoreError(f"the store gave another bundle for {pointer.run_id}", code="stored_bundle_altered")
