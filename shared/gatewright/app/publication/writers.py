"""Clients of sinks: each writes an object once, and reads it back. Redirects are not followed, and proxies are not used."""

from __future__ import annotations

import hashlib
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import IO

from gatewright.app.publication.sinks import SinkEntry
from gatewright.errors import StoreError
from gatewright.evidence.signing.durable_files import publish_file
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.objects import MAX_RECORD_BYTES, ObjectCreator, StoredObject, media_type
from gatewright.evidence.store.policy import StoreEntry, StoresPolicy
from gatewright.evidence.store.s3 import S3Store
from gatewright.evidence.store.static_export import StaticExport

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
