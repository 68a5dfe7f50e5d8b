"""Archives of sealed bundles, as they are handed to publishers part by part: made or fetched once, and kept for a while.

Nothing is decided here, and nothing of a bundle is changed. An archive is no proof: who gets it verifies it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.contracts import BundlePart
from gatewright.errors import HostError, StoreError
from gatewright.evidence import layout
from gatewright.evidence.store import archive
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.objects import ObjectReader, archive_name, pointer_name
from gatewright.evidence.store.pointer import read_pointer
from gatewright.ledger.events import BundleSealed

#: Bytes of an archive in one answer: with what base64 adds, it fits into a message of the smallest usual server.
PART_BYTES = 512 * 1024
#: Archives that are kept on the disk of this host.
KEPT = 4


@dataclass(frozen=True, slots=True)
class _Archive:
    path: Path
    size: int
    sha256: str


@dataclass
class BundleArchives:
    """``root`` is the folder of bundles of this host, ``outgoing`` where archives are kept; ``store`` may have bundles."""

    root: Path
    outgoing: Path
    store: ObjectReader | None = None
    address: StoreAddress | None = None
    _known: OrderedDict[str, _Archive] = field(default_factory=OrderedDict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def part(self, run_id: str, sealed: BundleSealed, offset: int) -> BundlePart:
        """The part of the bundle that the ledger says was sealed, from ``offset`` on. Raises StoreError, HostError."""
        async with self._turn:
            try:
                return await asyncio.to_thread(self._part, run_id, sealed, offset)
            except OSError as error:
                raise HostError(f"{self.outgoing}: {error.strerror or error}") from error

    def _part(self, run_id: str, sealed: BundleSealed, offset: int) -> BundlePart:
        digest = sealed.manifest_sha256
        if digest not in self._known:
            self._known[digest] = self._make(run_id, sealed)
        self._known.move_to_end(digest)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)[1].path.unlink(missing_ok=True)
        found = self._known[digest]
        with found.path.open("rb") as file:
            data = os.pread(file.fileno(), PART_BYTES, min(offset, found.size))
        text = base64.b64encode(data).decode()
        return BundlePart(run_id=run_id, manifest_sha256=digest, size=found.size, sha256=found.sha256, offset=offset, data=text)

    def _make(self, run_id: str, sealed: BundleSealed) -> _Archive:
        self.outgoing.mkdir(parents=True, exist_ok=True)
        path = self.outgoing / f"{layout.safe(sealed.manifest_sha256)}.zip"
        path.unlink(missing_ok=True)
        if self.store is not None and self.address is not None and sealed.location == self.address.run(run_id):
            return self._fetch(self.store, run_id, sealed.manifest_sha256, path)
        manifest = self.root / layout.safe(run_id) / layout.MANIFEST
        if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != sealed.manifest_sha256:
            raise _missing(run_id, f"it is not on this host; it was sealed at {sealed.location}")
        archive.pack(manifest.parent, path)
        with path.open("rb") as file:
            return _Archive(path, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())

    @staticmethod
    def _fetch(store: ObjectReader, run_id: str, manifest_sha256: str, path: Path) -> _Archive:
        pointer = read_pointer(store.read(pointer_name(run_id)) or b"", run_id)
        with path.open("xb") as file:
            came = store.download(archive_name(manifest_sha256), file, pointer.size)
        if came is None:
            raise _missing(run_id, "the store has it no more")
        if (came.size, came.sha256, manifest_sha256) != (pointer.size, pointer.sha256, pointer.manifest_sha256):
            raise StoreError(f"the store gave other bytes for the bundle of {run_id}", code="stored_bundle_altered")
        return _Archive(path, came.size, came.sha256)


def _missing(run_id: str, why: str) -> StoreError:
    return StoreError(f"the bundle of {run_id} cannot be had: {why}", code="stored_bundle_missing")
