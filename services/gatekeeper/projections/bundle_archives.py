"""Archives of sealed bundles, sent to publishers in parts. Each is built or fetched once and cached.

Nothing is decided here, and no bundle is changed. An archive is no proof: its recipient verifies it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gatewright.contracts import BundlePart
from gatewright.errors import HostError, StoreError
from gatewright.evidence import layout
from gatewright.evidence.store import archive
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.fetching import stored_pointer
from gatewright.evidence.store.objects import ObjectReader, archive_name, tombstone_name
from gatewright.evidence.store.storing_writer import store_calls
from gatewright.run.events import BundleSealed

#: Bytes of an archive per answer: with the overhead of base64 it fits into a message of the smallest common server.
PART_BYTES = 512 * 1024
#: Maximum number of archives cached on disk.
KEPT = 4


#: Concurrent downloads from the store, and seconds that a request waits for one.
_PLACES = 2
_FETCH_SECONDS = 900.0
#: Attempts to build an archive again after it was removed before being read.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Archive:
    path: Path
    size: int
    sha256: str


class BundleArchives:
    """Cache of archives in ``outgoing``. ``root`` is this host's folder of bundles; ``store`` may have more bundles.

    Each archive is built once for all requests of it. A slow one delays only its own requests.
    """

    def __init__(
        self, root: Path, outgoing: Path, store: ObjectReader | None = None, address: StoreAddress | None = None
    ) -> None:
        self._root = root
        self._outgoing = outgoing
        self._store = store
        self._address = address
        self._calls = store_calls(address, _PLACES) if address is not None else None
        self._known: OrderedDict[str, _Archive] = OrderedDict()
        self._making: dict[str, asyncio.Future[_Archive]] = {}

    async def part(self, run_id: str, sealed: BundleSealed, offset: int) -> BundlePart:
        """Return the part of the sealed bundle that starts at ``offset``.

        Raises:
            StoreError: the bundle store cannot be used.
            HostError: the archive cannot be written or read.
        """
        for _ in range(_TRIES):
            found = await self._archive(run_id, sealed)
            try:
                data = await asyncio.to_thread(_read_part, found.path, min(offset, found.size))
            except FileNotFoundError:
                self._known.pop(sealed.manifest_sha256, None)  # another archive replaced it
                continue
            except OSError as error:
                raise HostError(f"{self._outgoing}: {error.strerror or error}") from error
            return BundlePart(
                run_id=run_id,
                manifest_sha256=sealed.manifest_sha256,
                size=found.size,
                sha256=found.sha256,
                offset=offset,
                data=base64.b64encode(data).decode(),
            )
        raise HostError(f"{self._outgoing}: the archive of {run_id} was removed {_TRIES} times while it was read")

    async def _archive(self, run_id: str, sealed: BundleSealed) -> _Archive:
        digest = sealed.manifest_sha256
        if (known := self._known.get(digest)) is not None:
            self._known.move_to_end(digest)
            return known
        making = self._making.get(digest)
        if making is None:
            making = self._making[digest] = asyncio.ensure_future(self._make_archive(run_id, sealed))
            making.add_done_callback(lambda done: self._forget_made(digest, done))
        # Shielded: other requests may wait for the same archive, and a repeated request finds it.
        return await asyncio.shield(making)

    def _forget_made(self, digest: str, done: asyncio.Future[_Archive]) -> None:
        self._making.pop(digest, None)
        if done.cancelled() or done.exception() is not None:
            return
        self._known[digest] = done.result()
        while len(self._known) > KEPT:
            with contextlib.suppress(OSError):
                self._known.popitem(last=False)[1].path.unlink(missing_ok=True)

    async def _make_archive(self, run_id: str, sealed: BundleSealed) -> _Archive:
        path = self._outgoing / f"{layout.safe(sealed.manifest_sha256)}.zip"
        stored = self._address is not None and sealed.location == self._address.run(run_id)
        try:
            if stored and self._store is not None and self._calls is not None:
                fetching = partial(_fetch, self._store, run_id, sealed.manifest_sha256, path)
                return await self._calls.call(_FETCH_SECONDS, fetching)
            return await asyncio.to_thread(_pack, self._root, run_id, sealed, path)
        except OSError as error:
            raise HostError(f"{self._outgoing}: {error.strerror or error}") from error


def _read_part(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        return os.pread(file.fileno(), PART_BYTES, offset)


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Yield a new file that replaces ``path`` at the end. A call whose caller has gone may still write to its own file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="made-") as folder:
        draft = Path(folder) / path.name
        yield draft
        draft.replace(path)


def _pack(root: Path, run_id: str, sealed: BundleSealed, path: Path) -> _Archive:
    manifest = root / layout.safe(run_id) / layout.MANIFEST
    if not manifest.is_file() or hashlib.sha256(manifest.read_bytes()).hexdigest() != sealed.manifest_sha256:
        raise _missing_bundle(run_id, f"it is not on this host; it was sealed at {sealed.location}")
    with _draft(path) as draft:
        archive.pack(manifest.parent, draft)
        with draft.open("rb") as file:
            return _Archive(path, draft.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _fetch(store: ObjectReader, run_id: str, manifest_sha256: str, path: Path) -> _Archive:
    pointer = stored_pointer(store, run_id)
    with _draft(path) as draft:
        with draft.open("xb") as file:
            came = store.download(archive_name(manifest_sha256), file, pointer.size)
        if came is None:
            pruned = store.read(tombstone_name(run_id)) is not None
            raise _missing_bundle(run_id, "it was pruned, and left a tombstone" if pruned else "the store has lost it")
        if (came.size, came.sha256, manifest_sha256) != (pointer.size, pointer.sha256, pointer.manifest_sha256):
            raise StoreError(f"the store gave other bytes for the bundle of {run_id}", code="stored_bundle_altered")
    return _Archive(path, came.size, came.sha256)


def _missing_bundle(run_id: str, why: str) -> StoreError:
    return StoreError(f"the bundle of {run_id} cannot be had: {why}", code="stored_bundle_missing")
