"""Publishes files of a sealed run in one sink: each once, signed, and read back before the record is written.

Beside each file stand ``NAME.meta.json`` (``artifact_meta.v1``), ``NAME.dsse.json`` (an in-toto statement about it) and
``NAME.minisig``. The last object is the record, ``publication-DIGEST.dsse.json`` (``publication.v1``). Apart from the time in
the record, the same bundle and key give the same bytes, so calling this again completes what was interrupted. Signatures of the
same content by an earlier key of the home folder stay.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Final

import msgspec

from gatewright.app.publication.artifacts import Publishable, SealedRun, choose_files, make_file, refuse_secrets
from gatewright.app.publication.exceptions import needed_exceptions
from gatewright.app.publication.sinks import SinkEntry
from gatewright.app.signed_records import PUBLICATIONS, home_keys, open_record, record_file
from gatewright.clock import Clock, timestamp
from gatewright.contracts import ArtifactMeta, Publication, codec
from gatewright.contracts.records import FileRecord
from gatewright.errors import DeniedError, GatewrightError, StoreError
from gatewright.evidence.layout import safe
from gatewright.evidence.signed_documents import SignedKind
from gatewright.evidence.signing.durable_files import publish_file, put_file
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.signing.minisign import is_minisignature, minisignature
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.objects import MAX_RECORD_BYTES, ObjectCreator, StoredObject, media_type
from gatewright.evidence.store.policy import StoreEntry, StoresPolicy
from gatewright.evidence.store.publishing import check_write_once
from gatewright.evidence.store.s3 import S3Store
from gatewright.evidence.store.static_export import StaticExport
from gatewright.secrets.scanner import SecretScanner

# Clients of sinks: each writes an object once, and reads it back. Redirects are not followed, and proxies are not used.
_BLOCK = 1 << 20


def open_sink(sink: SinkEntry, stores: StoresPolicy) -> ObjectCreator:
    """Return a client of the sink.

    Raises StoreError, and ConfigurationError for its credentials.
    """
    if sink.kind == "folder":
        return FolderSink(Path(sink.address), sink.prefix)
    entry = sink.store(stores)
    return S3Store.open(sink.place, entry) if sink.kind == "s3" else WebSink(sink.place, entry, sink.authorization())


class WebSink(StaticExport):
    """A web server that stores what is PUT, and refuses a second PUT with ``If-None-Match: *`` (RFC 9110, section 13.1.2)."""

    def __init__(self, address: StoreAddress, entry: StoreEntry, authorization: str) -> None:
        """Raises StoreError (``store_refused``) when the file of the certificate authority cannot be used."""
        super().__init__(address, entry, urllib.request.ProxyHandler({}))
        if authorization:
            self._opener.addheaders = [*self._opener.addheaders, ("Authorization", authorization)]

    def create(self, name: str, source: Path | bytes, *, locked: bool = False) -> bool:  # noqa: ARG002 - without locks
        """Send the object; return False when one exists."""
        data = source if isinstance(source, bytes) else source.read_bytes()
        return self._put(name, data, {"If-None-Match": "*", "Content-Type": media_type(name)})


class FolderSink:
    """The existing folder ``root``, and ``prefix`` below it. Links inside that lead out of it are refused."""

    def __init__(self, root: Path, prefix: str) -> None:
        """Raises StoreError (``store_missing``)."""
        if not root.is_dir():
            raise StoreError(f"{root} is no folder", code="store_missing")
        self._root = root.resolve()
        self._top = self._root / prefix

    def read(self, name: str) -> bytes | None:
        """Return a small object; None when there is none."""
        data = BytesIO()
        return None if self.download(name, data, MAX_RECORD_BYTES) is None else data.getvalue()

    def download(self, name: str, file: IO[bytes], limit: int) -> StoredObject | None:
        """Copy an object into ``file``, up to ``limit`` bytes; None when there is none."""
        path, digest, size = self._path_of(name), hashlib.sha256(), 0
        try:
            with path.open("rb") as source:
                while block := source.read(_BLOCK):
                    size += len(block)
                    if size > limit:
                        raise StoreError(f"{path}: more than {limit} bytes", code="stored_bundle_too_large")
                    digest.update(block)
                    file.write(block)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._io_error(path, error) from error
        return StoredObject(size, digest.hexdigest())

    def create(self, name: str, source: Path | bytes, *, locked: bool = False) -> bool:  # noqa: ARG002 - without locks
        """Write the file; return False when one exists. A reader sees no part of it."""
        path = self._path_of(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            publish_file(self._path_of(name), source if isinstance(source, bytes) else source.read_bytes(), mode=0o644)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._io_error(path, error) from error
        return True

    def _path_of(self, name: str) -> Path:
        """Return the path of an object. Raises StoreError (``store_denied``) for one that a link leads elsewhere."""
        path = self._top / name
        # The path itself, too: it may be a link that exists already.
        if not path.resolve().is_relative_to(self._root) or path.is_symlink():
            raise StoreError(f"{path}: a link leads out of the sink", code="store_denied")
        return path

    @staticmethod
    def _io_error(path: Path, error: OSError) -> StoreError:
        code = "store_denied" if isinstance(error, PermissionError) else "store_unreachable"
        return StoreError(f"{path}: {error.strerror or type(error).__name__}", code=code)


Accepts = Callable[[bytes], bool]
META: Final = SignedKind(ArtifactMeta, "urn:gatewright:artifact-meta:v1", "bad_publication", lambda it: {it.name: it.sha256})
PUBLICATION: Final = SignedKind(
    Publication, "urn:gatewright:publication:v1", "bad_publication", lambda it: {each.path: each.sha256 for each in it.objects}
)


@dataclass(frozen=True, slots=True)
class Published:
    """A publication; ``new`` are the names of the objects that did not exist before."""

    record: Publication
    name: str
    new: tuple[str, ...]


class RunPublisher:
    """Publishes in one sink. ``note`` receives a line of progress for each file."""

    def __init__(
        self, sink: SinkEntry, stores: StoresPolicy, key: PrivateKey, home: Path, scanner: SecretScanner, clock: Clock
    ) -> None:
        self._sink, self._stores = sink, stores
        self._key, self._signer = key, Signer(key)
        self._home, self._scanner, self._clock = home, scanner, clock

    def publish(self, sealed: SealedRun, names: Sequence[str], note: Callable[[str], None]) -> Published:
        """Publish files of a run; the usual ones without ``names``.

        1. Each file is made, and its class, its size and its content are judged. Nothing leaves before all passed.
        2. The sink refuses a second write.
        3. Each object is written once, or exists with the same bytes, and is read back.
        4. The record is written last, to the sink and to the home folder.

        Raises GatewrightError.
        """
        exceptions = needed_exceptions(self._sink, self._sink.url(self._stores), self._clock.now())
        files = [self._judged_file(sealed, name) for name in choose_files(sealed, names)]  # 1
        store = open_sink(self._sink, self._stores)
        check_write_once(store)  # 2
        objects, new = [], []
        for number, file in enumerate(files, 1):
            note(f"publishing {file.name} ({number} of {len(files)})")
            for name, data, is_earlier in self._objects(sealed, file):  # 3
                stored, is_new = write_object(store, name, data, is_earlier)
                if is_new:
                    new.append(name)
                objects.append(FileRecord(path=name, sha256=hashlib.sha256(stored).hexdigest(), size=len(stored)))
        record = Publication(
            run_id=sealed.verification.run_id,
            manifest_sha256=sealed.verification.manifest_sha256,
            sink=self._sink.name,
            address=self._sink.shown,
            objects=tuple(objects),
            published_at=timestamp(self._clock.now()),
            key_id=self._key.public.key_id,
            exceptions=exceptions,
        )
        return self._recorded(store, record, new)

    def _judged_file(self, sealed: SealedRun, name: str) -> Publishable:
        file = make_file(sealed, name, self._sink.max_bytes)
        if file.classification not in self._sink.classifications:
            words = f"{name} is {file.classification} ({file.basis}); the sink {self._sink.name} does not take that"
            raise DeniedError(words, code="classification_not_allowed")
        refuse_secrets(sealed, file, self._scanner)
        return file

    def _objects(self, sealed: SealedRun, file: Publishable) -> Iterator[tuple[str, bytes, Accepts | None]]:
        """Yield the file and what stands beside it, by name in the sink, and whether other bytes are as good."""
        place, digest = f"{safe(sealed.verification.run_id)}/{file.name}", hashlib.sha256(file.data).hexdigest()
        meta = ArtifactMeta(
            run_id=sealed.verification.run_id,
            manifest_sha256=sealed.verification.manifest_sha256,
            name=file.name,
            sha256=digest,
            size=len(file.data),
            media_type=media_type(file.name),
            classification=file.classification,
            basis=file.basis,
            scanner=self._scanner.name,
            findings=0,
            redactions=file.redactions,
        )
        comment = f"{sealed.verification.run_id} {file.name} sha256:{digest}"

        def is_envelope(found: bytes) -> bool:
            try:
                return META.open(found, home_keys(self._home))[0] == meta
            except GatewrightError:
                return False

        def is_minisig(found: bytes) -> bool:
            return any(is_minisignature(key, file.data, comment, found) for key in home_keys(self._home))

        yield place, file.data, None
        yield f"{place}.meta.json", codec.encode(meta), None
        yield f"{place}.dsse.json", META.sign(meta, self._signer), is_envelope
        yield f"{place}.minisig", minisignature(self._key, file.data, comment), is_minisig

    def _recorded(self, store: ObjectCreator, record: Publication, new: list[str]) -> Published:
        """Write the record, or accept an earlier one of the same publication."""
        name = f"{record.run_id}/publication-{_content_digest(record)[:16]}.dsse.json"
        if store.create(name, PUBLICATION.sign(record, self._signer)):
            new.append(name)
        found = store.read(name)
        if found is None:
            raise StoreError(f"{name}: the sink took the object and does not have it", code="publication_not_stored")
        try:
            earlier = open_record(PUBLICATION, found, [self._key.public])
        except GatewrightError:
            raise DeniedError(f"{name}: the sink has another object of this name", code="publication_conflict") from None
        if _content_digest(earlier) != _content_digest(record):
            raise DeniedError(f"{name}: the sink has the record of another publication", code="publication_conflict")
        keep_record(self._home, earlier, found)
        return Published(earlier, name, tuple(new))


def write_object(store: ObjectCreator, name: str, data: bytes, accepts: Accepts | None = None) -> tuple[bytes, bool]:
    """Write an object once and read it back. Return its bytes, and False if it existed.

    ``accepts`` returns whether other bytes that exist are as good.

    Raises:
        DeniedError: it exists with other bytes (``publication_conflict``).
        StoreError: the sink reports success and has something else (``publication_not_stored``), and its errors.
    """
    expected = hashlib.sha256(data).hexdigest()
    new = not _stored_digest(store, name, len(data)) and store.create(name, data)
    if _stored_digest(store, name, len(data)) == expected:
        return data, new
    if not new:
        if accepts is not None and (found := _small_object(store, name)) is not None and accepts(found):
            return found, False
        raise DeniedError(f"{name}: the sink has other bytes of this name, and they stay", code="publication_conflict")
    raise StoreError(f"{name}: the sink reports success, and does not return these bytes", code="publication_not_stored")


def _small_object(store: ObjectCreator, name: str) -> bytes | None:
    try:
        return store.read(name)
    except StoreError as error:
        if error.reason != "stored_bundle_too_large":
            raise
        return None


def _stored_digest(store: ObjectCreator, name: str, size: int) -> str:
    """Return the sha256 of an object; empty when there is none, and ``larger`` for one of more bytes."""
    try:
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - not a path of ours
            came = store.download(name, nothing, size)
    except StoreError as error:
        if error.reason != "stored_bundle_too_large":
            raise
        return "larger"
    return came.sha256 if came is not None else ""


def keep_record(home: Path, record: Publication, data: bytes) -> None:
    """Store a record in the home folder. Raises OSError."""
    file = record_file(home, PUBLICATIONS, record.run_id, f"{safe(record.sink)}-{_content_digest(record)[:16]}")
    if not file.exists():
        put_file(file, data, mode=0o644)


def _content_digest(record: Publication) -> str:
    """Return the digest of what was published, without the time."""
    same = msgspec.structs.replace(record, published_at="1970-01-01T00:00:00Z")
    return hashlib.sha256(codec.encode(same)).hexdigest()
