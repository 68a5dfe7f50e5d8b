"""Backup during operation. It stops nothing, and writes only to the new folder.

The order makes it consistent: queues, then path locks, then the ledger, whose end is the moment of the backup; then what
the ledger refers to, which only grows; then the bundles of runs that had ended by then. Everything in between is in both
places or can be repeated: no step of a run may be lost or applied twice.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from gatewright.app.backup.contents import (
    BUNDLES,
    CONTENTS,
    FILES,
    STREAMS,
    BackupContents,
    KeptBundle,
    KeptFile,
    bundle_place,
    is_later,
    stream_place,
)
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.stream_snapshots import StreamSnapshot, stored_streams, take_snapshot
from gatewright.bus.topology import is_of_ledger
from gatewright.clock import Clock, timestamp
from gatewright.errors import MalformedError
from gatewright.evidence import layout
from gatewright.evidence.signing.durable_files import publish_file, sync_folder
from gatewright.evidence.store.archive import pack
from gatewright.evidence.tombstone import FILE as TOMBSTONE
from gatewright.version import __version__

_BLOCK = 1 << 20
_PRIVATE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The data to back up. ``files``: path in a home folder -> current location; ``runs``: the folder of bundles.

    ``bundle_store`` is the address of the store that has them instead.
    """

    files: Mapping[str, Path]
    runs: Path
    signing_key: str
    identities: Mapping[str, str]
    bundle_store: str = ""


@dataclass(slots=True)
class BackupOutcome:
    """``later``: runs that ended after the moment of the backup; their bundles are not part of it."""

    contents: BackupContents
    sha256: str
    later: list[str] = field(default_factory=list)


async def take_backup(
    connection: Connection, installation: Installation, folder: Path, clock: Clock, report: Callable[[str], None]
) -> BackupOutcome:
    """Write a backup to the empty folder ``folder``; ``report`` is called with each part.

    1. streams, in their order  2. keys, identities, policies, holds  3. bundles  4. the document that lists it all, which
    makes it a backup. Raises MalformedError (``backup_exists``), BusError, OSError; a partial backup stays, and is invalid.
    """
    _make_empty_folder(folder)
    created = timestamp(clock.now())
    streams: list[StreamSnapshot] = []
    for name in await stored_streams(connection):  # 1
        with _new(folder / stream_place(name)) as file:
            snapshot = await take_snapshot(connection, name, file)
            os.fsync(file.fileno())
        streams.append(snapshot)
        report(f"stream {name}: {snapshot.messages} messages, {snapshot.size} bytes")
    moment = sum(each.last_sequence for each in streams if is_of_ledger(each.stream))
    files = tuple(_copy(source, folder, path) for path, source in sorted(installation.files.items()))  # 2
    report(f"{len(files)} files of keys, identities and policies")
    later: list[str] = []
    bundles = tuple(_bundles(installation.runs, folder, streams, later)) if not installation.bundle_store else ()  # 3
    report(f"{len(bundles)} bundles")
    contents = BackupContents(
        version=__version__,
        created_at=created,
        finished_at=timestamp(clock.now()),
        moment=moment,
        signing_key=installation.signing_key,
        identities=dict(installation.identities),
        bundle_store=installation.bundle_store,
        streams=tuple(streams),
        files=files,
        bundles=bundles,
    )
    data = msgspec.json.format(msgspec.json.encode(contents), indent=1)
    for each in _folders(folder):
        sync_folder(each)
    publish_file(folder / CONTENTS, data, mode=_PRIVATE)  # 4
    return BackupOutcome(contents, hashlib.sha256(data).hexdigest(), later)


def _make_empty_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise MalformedError(f"{folder} holds something already: name a folder that does not exist yet", code="backup_exists")
    folder.chmod(0o700)
    for part in (STREAMS, FILES, BUNDLES):
        (folder / part).mkdir(mode=0o700)


def _new(path: Path) -> BinaryIO:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE), "wb")


def _copy(source: Path, folder: Path, path: str) -> KeptFile:
    digest, size = hashlib.sha256(), 0
    with source.open("rb") as file, _new(folder / FILES / path) as target:
        mode = os.fstat(file.fileno()).st_mode & 0o777
        while block := file.read(_BLOCK):
            target.write(block)
            digest.update(block)
            size += len(block)
        target.flush()
        os.fsync(target.fileno())
    return KeptFile(path, digest.hexdigest(), size, mode)


def _bundles(runs: Path, folder: Path, streams: Sequence[StreamSnapshot], later: list[str]) -> Iterator[KeptBundle]:
    """The bundles of runs that had ended when the ledger was kept.

    The folder of an open run holds what the ledger holds; it is made again from there.
    """
    for run in sorted(runs.iterdir()) if runs.is_dir() else ():
        pruned = (run / TOMBSTONE).is_file()
        if run.is_symlink() or not (pruned or (run / layout.MANIFEST).is_file()):
            continue
        if not pruned and is_later(run, streams):
            later.append(run.name)
            continue
        packed = folder / bundle_place(run.name)
        pack(run, packed)
        packed.chmod(_PRIVATE)
        with packed.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        yield KeptBundle(run.name, digest, packed.stat().st_size, pruned)


def _folders(folder: Path) -> Iterator[Path]:
    yield from (Path(parent) for parent, _, _ in os.walk(folder, topdown=False))
