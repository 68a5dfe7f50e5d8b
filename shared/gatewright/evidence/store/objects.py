"""Interface of an object store, and the names of objects in it. Every method may block, and raises StoreError."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

#: An archive is a single upload without ZIP64 entries.
MAX_ARCHIVE_BYTES = (1 << 31) - 1
#: Maximum bytes of pointers, holds and tombstones; a larger one is invalid.
MAX_RECORD_BYTES = 256 * 1024
#: Maximum number of listed objects per kind.
MAX_LISTED = 200_000


@dataclass(frozen=True, slots=True)
class ObjectLock:
    """Locks of an object as reported by the store: retention date (ISO 8601, or empty) and legal hold."""

    until: str = ""
    legal_hold: bool = False


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A downloaded object: its bytes are counted and hashed locally."""

    size: int
    sha256: str
    lock: ObjectLock = ObjectLock()


class ObjectReader(Protocol):
    """A readable store."""

    def read(self, name: str) -> bytes | None:
        """Return a small object; None when there is none.

        Raises:
            StoreError: it is larger than a record (``stored_bundle_too_large``).
        """

    def download(self, name: str, file: IO[bytes], limit: int) -> StoredObject | None:
        """Download an object into ``file``, up to ``limit`` bytes; None when there is none."""


class ObjectCreator(ObjectReader, Protocol):
    """A store in which objects are written once."""

    def create(self, name: str, source: Path | bytes, *, locked: bool = False) -> bool:
        """Create an object.

        Returns:
            False when one exists, from this writer or another.
        """


class ObjectStore(ObjectCreator, Protocol):
    """A writable store, for the gatekeeper and for operators."""

    def names(self, prefix: str) -> Iterator[str]:
        """Yield the names with this prefix."""

    def lock_of(self, name: str) -> ObjectLock | None:
        """Return the locks of an object; None when there is no object."""

    def hold(self, name: str, *, on: bool) -> bool:
        """Set or release a legal hold of an object; False when the store does not support holds."""

    def remove(self, name: str) -> None:
        """Remove an object with every version of it. A missing object is ignored.

        Raises:
            StoreError: the object is locked (``store_locked``).
        """


_MEDIA_TYPES = {".zip": "application/zip", ".json": "application/json", ".diff": "text/x-diff", ".md": "text/markdown"}


def media_type(name: str) -> str:
    """Return the media type of an object by the ending of its name."""
    return _MEDIA_TYPES.get(PurePosixPath(name).suffix, "application/octet-stream")


def archive_name(manifest_sha256: str) -> str:
    """Return the name of the archive of the bundle with this manifest."""
    return f"bundles/{manifest_sha256}.zip"


def pointer_name(run_id: str) -> str:
    """Return the name of the pointer to the run's bundle."""
    return f"runs/{run_id}.json"


def tombstone_name(run_id: str) -> str:
    """Return the name of the tombstone of the run's bundle."""
    return f"tombstones/{run_id}.dsse.json"


def hold_name(run_id: str, number: int) -> str:
    """Return the name of the ``number``-th record about a hold on the run's bundle, from 1."""
    return f"holds/{run_id}/{number:06}.json"


#: Written once, to test that the store refuses a second write.
WRITE_ONCE = "write-once"
RUNS = "runs/"
HOLDS = "holds/"
