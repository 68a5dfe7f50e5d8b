"""The content of a backup: a folder of files that one document lists by digest. Read as hostile input.

The document is written last: a folder without it is no backup. Its statements about files are checked against the files;
its own digest, which an operator keeps elsewhere, proves its origin. This module restores nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Literal

import msgspec

from gatewright.app import signed_records
from gatewright.app.retention.holds import BOOK
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.stream_snapshots import StreamSnapshot
from gatewright.bus.topology import is_of_ledger
from gatewright.contracts import RunManifest, codec
from gatewright.errors import GatewrightError, MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.store.archive import is_plain_path
from gatewright.foreign_documents import UnreadableDocumentError, read_json

#: The document; a backup that was not finished has none.
CONTENTS: Final = "backup.json"
FORM: Final = "gatewright-backup.v1"
STREAMS: Final = "streams"
FILES: Final = "home"
BUNDLES: Final = "bundles"
#: Folders of a home folder that are kept as they are, and the book of holds.
KEPT: Final = ("keys", "bus", "policies", *signed_records.KINDS)
_MAX_CONTENTS_BYTES = 256 << 20
_BLOCK = 1 << 20


class KeptFile(msgspec.Struct, frozen=True):
    """A file of the home folder; ``path`` is its place there, with slashes. ``mode``: its rights."""

    path: str
    sha256: str
    size: int
    mode: int


class KeptBundle(msgspec.Struct, frozen=True):
    """A sealed bundle, packed. ``pruned``: only its tombstone exists."""

    run_id: str
    sha256: str
    size: int
    pruned: bool = False


class BackupContents(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a backup. ``moment``: the last message of the ledger in it, or for a partitioned ledger their number.
    ``identities``: name -> public key."""

    form: Literal["gatewright-backup.v1"] = FORM
    version: str
    created_at: str
    finished_at: str
    moment: int
    signing_key: str
    identities: dict[str, str]
    #: The store of bundles, if not the home folder; its bundles are not part of the backup.
    bundle_store: str
    streams: tuple[StreamSnapshot, ...]
    files: tuple[KeptFile, ...]
    bundles: tuple[KeptBundle, ...]

    def places(self) -> Iterator[tuple[str, str, int]]:
        """Yield every file of the backup: its path there, digest, size."""
        for stream in self.streams:
            yield stream_place(stream.stream), stream.sha256, stream.size
        for file in self.files:
            yield f"{FILES}/{file.path}", file.sha256, file.size
        for bundle in self.bundles:
            yield bundle_place(bundle.run_id), bundle.sha256, bundle.size

    def size(self) -> int:
        return sum(size for _, _, size in self.places())


def stream_place(stream: str) -> str:
    return f"{STREAMS}/{stream}.snapshot"


def bundle_place(run_id: str) -> str:
    return f"{BUNDLES}/{run_id}.zip"


def read_backup(folder: Path, digest: str | None = None) -> tuple[BackupContents, str]:
    """Return the document of a backup and its sha256, without reading other files.

    Raises VerificationError (``backup_incomplete``, ``backup_altered``), MalformedError (``backup_form_unknown``,
    ``not_a_backup``).
    """
    if not folder.is_dir():
        raise MalformedError(f"{folder} is no folder", code="not_a_backup")
    try:
        with open_plain(folder, CONTENTS) as file:
            data = file.read(_MAX_CONTENTS_BYTES + 1)
    except FileNotFoundError:
        if any((folder / part).is_dir() for part in (STREAMS, FILES)):
            raise VerificationError(
                f"{folder} holds a backup that was not finished: it has no {CONTENTS}", code="backup_incomplete"
            ) from None
        raise MalformedError(f"{folder} holds no backup: there is no {CONTENTS}", code="not_a_backup") from None
    found = hashlib.sha256(data).hexdigest()
    if digest is not None and found != digest.removeprefix("sha256:"):
        raise altered(f"{CONTENTS} has the digest {found}, and another one was given")
    try:
        form = read_json(data, dict[str, object]).get("form")
        if form != FORM:
            raise MalformedError(f"the backup has the form {form!r}, and this version reads {FORM}", code="backup_form_unknown")
        contents = read_json(data, BackupContents)
    except UnreadableDocumentError as error:
        raise altered(f"{CONTENTS} is not as it was written: {error}") from error
    _check_names(contents)
    return contents, found


def check_files(folder: Path, contents: BackupContents) -> None:
    """Check that every listed file is present and unchanged, and no other exists. Raises VerificationError
    (``backup_altered``)."""
    wanted = {CONTENTS}
    for place, sha256, size in contents.places():
        wanted.add(place)
        try:
            with open_plain(folder, place) as file:
                same = os.fstat(file.fileno()).st_size == size and _digest_file(file) == sha256
        except OSError as error:
            raise altered(f"{place}: {error.strerror or error}") from error
        if not same:
            raise altered(f"{place} is not what was written")
    for parent, folders, names in os.walk(folder):
        for name in (*names, *(each for each in folders if (Path(parent) / each).is_symlink())):
            here = (Path(parent) / name).relative_to(folder).as_posix()
            if here not in wanted:
                raise altered(f"{here} is no part of it")


def open_plain(folder: Path, place: str) -> BinaryIO:
    """Open a plain file below ``folder``; no part of its path may be a link. Raises OSError."""
    parts = PurePosixPath(place).parts
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        fd = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)
    file = os.fdopen(fd, "rb")
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        file.close()
        raise OSError(f"{place} is no plain file")
    return file


def ended_at(run: Path) -> int:
    """The place of a bundle's last transition in the ledger; 0 for one that cannot be read."""
    try:
        integrity = codec.decode((run / layout.MANIFEST).read_bytes(), RunManifest).integrity
    except (GatewrightError, OSError):
        return 0
    return (integrity.ledger_last if integrity is not None else None) or 0


def is_later(run: Path, streams: Iterable[StreamSnapshot]) -> bool:
    """Return whether a bundle has more events than the ledger of these snapshots."""
    last, ended = {each.stream: each.last_sequence for each in streams if is_of_ledger(each.stream)}, ended_at(run)
    layout = LedgerLayout(max(1, len(last)))
    return layout.sequence(ended) > last.get(layout.stream_at(ended), 0)


def altered(why: str) -> VerificationError:
    return VerificationError(f"the backup was altered, or is not whole: {why}", code="backup_altered")


def _digest_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK):
        digest.update(block)
    return digest.hexdigest()


def _check_names(contents: BackupContents) -> None:
    """Check that each name of a file, a stream or a run is unique and stays inside the restored folder."""
    names = [place for place, _, _ in contents.places()]
    if len(set(names)) != len(names):
        raise altered("it lists a file twice")
    for stream in contents.streams:
        if stream.config.get("name") != stream.stream or not is_plain_path(stream.stream) or "/" in stream.stream:
            raise altered(f"{stream.stream!r} is no stream")
    for file in contents.files:
        if not is_plain_path(file.path) or not _is_kept(file.path) or file.mode & ~0o777:
            raise altered(f"{file.path!r} is no file of a home folder that a backup holds")
    for bundle in contents.bundles:
        if not is_plain_path(bundle.run_id) or "/" in bundle.run_id:
            raise altered(f"{bundle.run_id!r} is no run")


def _is_kept(path: str) -> bool:
    return path == BOOK or path.split("/", maxsplit=1)[0] in KEPT
