"""Bounded reader for a store's reply, in size and time, since a store may send without end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol

from gatewright.errors import StoreError

#: Maximum bytes of a list or an error; a bundle has its own limit.
MAX_REPLY_BYTES = 8 << 20
#: Maximum seconds for such a reply, and for a bundle; a slower store is treated as unreachable.
REPLY_SECONDS = 60.0
DOWNLOAD_SECONDS = 900.0
_BLOCK = 1 << 16


class RawBody(Protocol):
    """Body of the HTTP library: bytes as they arrive."""

    def read1(self, amount: int) -> bytes: ...

    def close(self) -> None: ...


class BoundedBody:
    """Replacement for ``raw``. ``limit`` in bytes, ``seconds`` from now on."""

    def __init__(self, raw: RawBody, limit: int, seconds: float) -> None:
        self._raw = raw
        self._left = limit
        self._until = time.monotonic() + seconds

    def read(self, amount: int | None = None) -> bytes:
        """Return up to ``amount`` received bytes; empty at the end.

        Raises:
            StoreError: the reply exceeds its limit.
        """
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
        """Yield the whole body."""
        while data := self.read():
            yield data

    def close(self) -> None:
        self._raw.close()
