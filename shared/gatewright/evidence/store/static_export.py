"""A read-only store by HTTPS: a bucket behind a web server, or a copy of one. Standard library, no redirects."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import IO

from gatewright.errors import StoreError
from gatewright.evidence.store.address import StoreAddress
from gatewright.evidence.store.bounded_body import DOWNLOAD_SECONDS, BoundedBody
from gatewright.evidence.store.objects import MAX_RECORD_BYTES, StoredObject
from gatewright.evidence.store.policy import StoreEntry

_SECONDS = 20


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class StaticExport:
    """The objects below ``address``."""

    def __init__(self, address: StoreAddress, entry: StoreEntry, *handlers: urllib.request.BaseHandler) -> None:
        """Raises StoreError (``store_refused``) when the file of the certificate authority cannot be used."""
        self._address = address
        try:
            context = ssl.create_default_context(cafile=entry.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise StoreError(
                f"{address}: {entry.ca_file} cannot be used: {type(error).__name__}", code="store_refused"
            ) from None
        self._opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context), *handlers)

    def read(self, name: str) -> bytes | None:
        data = BytesIO()
        return None if self.download(name, data, MAX_RECORD_BYTES) is None else data.getvalue()

    def download(self, name: str, file: IO[bytes], limit: int) -> StoredObject | None:
        digest, size = hashlib.sha256(), 0
        try:
            with self._opener.open(f"{self._address}/{name}", timeout=_SECONDS) as reply:
                expected = reply.length
                for block in _blocks(reply, limit):
                    size += len(block)
                    digest.update(block)
                    file.write(block)
                if expected is not None and size < expected:
                    # The library treats a broken connection as the end of the body.
                    raise http.client.IncompleteRead(b"", expected - size)
        except urllib.error.HTTPError as error:
            with error:
                if error.code in {404, 410}:
                    return None
                raise self._failure_error(name, _code_of(error.code), f"the store answers {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._failure_error(
                name, "store_unreachable", f"the store cannot be reached: {type(error).__name__}"
            ) from None
        return StoredObject(size, digest.hexdigest())

    def _put(self, name: str, data: bytes, headers: Mapping[str, str]) -> bool:
        """Send the object; return False when one exists (412, RFC 9110)."""
        request = urllib.request.Request(f"{self._address}/{name}", data, dict(headers), method="PUT")  # noqa: S310 - http(s)
        try:
            with self._opener.open(request, timeout=_SECONDS):
                return True
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 412:
                    return False
                raise self._failure_error(name, _code_of(error.code), f"the server answers {error.code}") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._failure_error(
                name, "store_unreachable", f"the server cannot be reached: {type(error).__name__}"
            ) from None

    def _failure_error(self, name: str, code: str, words: str) -> StoreError:
        return StoreError(f"{self._address}: {name}: {words}", code=code)


def _blocks(reply: http.client.HTTPResponse, limit: int) -> Iterator[bytes]:
    return BoundedBody(reply, limit, DOWNLOAD_SECONDS).stream()


def _code_of(status: int) -> str:
    if 300 <= status < 400:
        return "store_redirects"
    if status in {401, 403}:
        return "store_denied"
    return "store_unreachable" if status >= 500 or status in {408, 429} else "store_refused"
