"""What is asked of a store of objects, and the names of ours in it. Every method may block, and raises StoreError."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

#: One archive is one upload, and has no entry of more than 32 bits.
MAX_ARCHIVE_BYTES = (1 << 31) - 1
#: Pointers, holds, tombstones: a larger one is none.
MAX_RECORD_BYTES = 256 * 1024
#: Objects of one kind that are listed.
MAX_LISTED = 200_000


@dataclass(frozen=True, slots=True)
class ObjectLock:
    """What the store says it holds an object by: until when nothing removes it (ISO 8601; empty), and a legal hold."""

    until: str = ""
    legal_hold: bool = False


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as it came: its bytes were counted and digested here."""

    size: int
    sha256: str
    lock: ObjectLock = ObjectLock()


class ObjectReader(Protocol):
    """A store that is read."""

    def read(self, name: str) -> bytes | None:
        """A small object; None where there is none. StoreError (``stored_bundle_too_large``) for more than a record has."""

    def download(self, name: str, file: IO[bytes], limit: int) -> StoredObject | None:
        """An object into ``file``, no more than ``limit`` bytes of it; None where there is none."""


class ObjectStore(ObjectReader, Protocol):
    """A store that is written, by the gatekeeper, and cleared by operators."""

    def create(self, name: str, source: Path | bytes, *, locked: bool = False) -> bool:
        """Write a new object: False where one exists, of this writer or another. ``locked``: as the policy says."""

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin so."""

    def lock_of(self, name: str) -> ObjectLock | None:
        """What holds an object; None where there is none."""

    def hold(self, name: str, *, on: bool) -> bool:
        """Have the store itself hold an object, or let go of it; False where it has no such thing."""

    def remove(self, name: str) -> None:
        """Remove an object, and every version of it. One that is not there is gone already. (``store_locked``)"""


def archive_name(manifest_sha256: str) -> str:
    """The bundle with this manifest, whole."""
    return f"bundles/{manifest_sha256}.zip"


def pointer_name(run_id: str) -> str:
    """Which bundle is the run's."""
    return f"runs/{run_id}.json"


def tombstone_name(run_id: str) -> str:
    """What says that the run's bundle was removed on purpose."""
    return f"tombstones/{run_id}.dsse.json"


def hold_name(run_id: str, number: int) -> str:
    """The ``number``-th act about a hold on the run's bundle, from 1."""
    return f"holds/{run_id}/{number:06}.json"


#: Written once, to see whether a second writer is refused.
WRITE_ONCE = "write-once"
RUNS = "runs/"
HOLDS = "holds/"
