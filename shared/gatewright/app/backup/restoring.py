"""Restore of an installation from a backup, into an empty home folder and a NATS server without streams.

Everything is checked before anything is written, and nothing existing is overwritten. An interrupted restore leaves a mark
by which a home folder is refused; another restore starts from the beginning.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatewright.app.backup.contents import (
    BUNDLES,
    FILES,
    BackupContents,
    KeptBundle,
    KeptFile,
    altered,
    bundle_place,
    is_later,
    open_plain,
    stream_place,
)
from gatewright.app.stack.state import UNFINISHED
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.stream_snapshots import StreamSnapshot, existing, give_back
from gatewright.errors import ConfigurationError, MalformedError, StoreError
from gatewright.evidence.signing.durable_files import sync_folder
from gatewright.evidence.store.archive import unpack

#: The folder for bundles that the restored ledger does not know.
AHEAD = "runs-after-backup"
_RUNS = "runs"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    """The restored data; ``ahead``: runs whose bundles are newer than the ledger, and were moved aside."""

    streams: int
    files: int
    bundles: int
    ahead: tuple[str, ...] = ()


@contextmanager
def staged_home(home: Path) -> Iterator[Path]:
    """Yield a folder in ``home`` to restore into; its content moves to ``home`` when the block ends without an error.

    ``home`` may hold nothing except the remains of an interrupted restore. Raises MalformedError
    (``restore_target_in_use``).
    """
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    staging = home / UNFINISHED
    there = sorted(path.name for path in home.iterdir() if path.name not in (UNFINISHED, ".gitignore"))
    if there:
        words = f"{home} holds {there[0]}, and nothing is overwritten: set GATEWRIGHT_HOME to a folder that does not exist yet"
        raise MalformedError(words, code="restore_target_in_use")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(mode=0o700)
    yield staging
    # There are some tens of files per bundle: one call flushes all buffered writes of this host.
    os.sync()
    for part in sorted(staging.iterdir()):
        part.rename(home / part.name)
    sync_folder(home)
    # The last step: until then the home folder is refused.
    staging.rmdir()
    sync_folder(home)


def bring_files(folder: Path, contents: BackupContents, into: Path, report: Callable[[str], None]) -> None:
    """Keys, identities, policies, holds and bundles, each looked at again while copied. Raises VerificationError, OSError."""
    for file in contents.files:
        _bring_file(folder, file, into)
    report(f"{len(contents.files)} files of keys, identities and policies")
    (into / _RUNS).mkdir(mode=0o700, exist_ok=True)
    for bundle in contents.bundles:
        _bring_bundle(folder, bundle, into / _RUNS)
    report(f"{len(contents.bundles)} bundles")


async def bring_streams(
    connection: Connection, folder: Path, contents: BackupContents, replicas: int | None, report: Callable[[str], None]
) -> None:
    """Restore every stream, the ledger among them. Raises MalformedError (``restore_target_in_use``), ConfigurationError
    (``backup_foreign``), BusError."""
    check_owner(connection, contents)
    for snapshot in contents.streams:
        if await existing(connection, snapshot.stream) is not None:
            raise MalformedError(
                f"the NATS server has a stream {snapshot.stream}, and nothing is overwritten: start one with an empty folder "
                "for its streams, and no service before the restore is done",
                code="restore_target_in_use",
            )
    changed: dict[str, Any] = {} if replicas is None else {"num_replicas": replicas}
    for snapshot in contents.streams:
        with open_plain(folder, stream_place(snapshot.stream)) as source:
            messages = await give_back(connection, snapshot, source, changed)
        if messages < snapshot.messages and snapshot.config.get("retention") != "workqueue":
            raise altered(f"stream {snapshot.stream} came back with {messages} messages, and had {snapshot.messages}")
        report(f"stream {snapshot.stream}: {messages} messages")


def check_owner(connection: Connection, contents: BackupContents) -> None:
    """Raises ConfigurationError (``backup_foreign``): the server knows other identities than the backup is of."""
    credential = connection.credential
    if credential is None or credential.token:
        return
    own = contents.identities.get(credential.identity)
    if own is not None and own != credential.public_key:
        raise ConfigurationError(
            f"the backup is of another installation: its {credential.identity} has the key {own}, and this one "
            f"{credential.public_key}; restore its keys first (--only files), and start the NATS server with them",
            code="backup_foreign",
        )


def set_aside(home: Path, ledger: Iterable[StreamSnapshot]) -> tuple[str, ...]:
    """Move bundles of ``home`` that are newer than the ledger aside, so that those runs can continue; return their ids.

    They stay unchanged, as the only data from after the backup.
    """
    moved, streams = [], tuple(ledger)
    runs = home / _RUNS
    for run in sorted(runs.iterdir()) if runs.is_dir() else ():
        if run.is_dir() and not run.is_symlink() and is_later(run, streams):
            (home / AHEAD).mkdir(mode=0o700, exist_ok=True)
            run.rename(home / AHEAD / run.name)
            moved.append(run.name)
    return tuple(moved)


def _bring_file(folder: Path, kept: KeptFile, into: Path) -> None:
    place = into / kept.path
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open_plain(folder, f"{FILES}/{kept.path}") as source:
        fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as target:
            while block := source.read(_BLOCK):
                digest.update(block)
                target.write(block)
            os.fchmod(fd, kept.mode)
            target.flush()
            os.fsync(fd)
    if digest.hexdigest() != kept.sha256:
        raise altered(f"{FILES}/{kept.path} changed while it was read")


def _bring_bundle(folder: Path, kept: KeptBundle, runs: Path) -> None:
    with open_plain(folder, bundle_place(kept.run_id)):
        pass  # no link on the way to it
    try:
        unpack(folder / bundle_place(kept.run_id), runs / kept.run_id)
    except StoreError as error:
        raise altered(f"{BUNDLES}/{kept.run_id}: {error.message}") from error
