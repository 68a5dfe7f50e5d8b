"""The pointer from a run to its bundle in a store: written once, and an unverified claim like all data of a store. Pure.

It names the archive to fetch. The signature over the manifest inside proves the bundle.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import msgspec

from gatewright.contracts import RunManifest, codec
from gatewright.contracts.vocabulary import RunId, Sha256, Timestamp
from gatewright.errors import StoreError
from gatewright.evidence import layout
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: Version of the written pointers.
_VERSION: Final = 1


class BundlePointer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``size`` and ``sha256`` are the archive's; ``status`` and ``finished_at`` repeat the manifest, for lists."""

    version: int
    run_id: RunId
    manifest_sha256: Sha256
    signer: Sha256
    size: int
    sha256: Sha256
    status: str
    finished_at: Timestamp

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def pointer_of(folder: Path, size: int, sha256: str) -> BundlePointer:
    """Return the pointer of the sealed bundle in ``folder``.

    Args:
        folder: the bundle.
        size: bytes of its archive.
        sha256: digest of its archive.
    """
    data = (folder / layout.MANIFEST).read_bytes()
    manifest = codec.decode(data, RunManifest)
    digest = hashlib.sha256(data).hexdigest()
    signer = manifest.integrity.signer if manifest.integrity else ""
    aborted = (manifest.failure_reason or "").startswith("aborted")
    status = "SUCCESS" if manifest.status == "SUCCESS" else "ABORTED" if aborted else "FAILED"
    return BundlePointer(_VERSION, manifest.run_id, digest, signer, size, sha256, status, manifest.finished_at or "")


class _Version(msgspec.Struct):
    version: int


def read_pointer(data: bytes, run_id: str) -> BundlePointer:
    """Decode the pointer of a run.

    Raises:
        StoreError: ``stored_bundle_altered`` for an invalid pointer or that of another run, ``layout_unknown`` for a later
            version.
    """
    try:
        if (version := read_json(data, _Version).version) > _VERSION:
            words = f"the pointer to the bundle of {run_id} names version {version}; this Gatewright reads version {_VERSION}"
            raise StoreError(words, code="layout_unknown")
        pointer = read_json(data, BundlePointer)
    except UnreadableDocumentError:
        raise StoreError(f"what the store gave for {run_id} is no pointer to a bundle", code="stored_bundle_altered") from None
    if pointer.version != _VERSION or pointer.run_id != run_id or pointer.size < 0:
        words = f"what the store gave for {run_id} is the pointer of another run, or of no version"
        raise StoreError(words, code="stored_bundle_altered")
    return pointer
