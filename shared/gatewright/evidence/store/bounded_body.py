"""The body of a reply of a store, read no further than is asked for, and no longer: a store may send without end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from gatewright.errors import StoreError

#: Bytes of a list or of an error; a bundle has its own bound.
MAX_REPLY_BYTES = 8 << 20
#: Seconds for such a reply, and for a bundle: what comes more slowly is taken for a store that cannot be reached.
REPLY_SECONDS = 60.0
DOWNLOAD_SECONDS = 900.0
_BLOCK = 1 << 16


class RawBody(Protocol):
    """What the HTTP library gives: bytes as they come."""

    def read1(self, amount: int) -> bytes: ...

    def close(self) -> None: ...


class BoundedBody:
    """Stands in the place of ``raw``. ``limit`` in bytes, ``seconds`` from now on."""

    def __init__(self, raw: RawBody, limit: int, seconds: float) -> None:
        self._raw = raw
        self._left = limit
        self._until = time.monotonic() + seconds

    def read(self, amount: int | None = None) -> bytes:
        """What has come, ``amount`` bytes at most; nothing at the end. Raises StoreError."""
        wanted = min(amount or _BLOCK, _BLOCK, self._left + 1)
        data = self._raw.read1(wanted)
        self._left -= len(data)
        if self._left < 0:
            self._raw.close()
            raise StoreError("the store sends more bytes than this may have", code="stored_bundle_too_large")
        if time.monotonic() > self._until:
            self._raw.close()
            raise StoreError("the store sends too slowly", code="store_unreachable")
        return data

    def stream(self) -> Iterator[bytes]:
        """All of it."""
        while data := self.read():
            yield data

    def close(self) -> None:
        self._raw.close()
