"""Artifacts that this gatekeeper has seen lately: a run's gates and its bundle look at the same ones again and again.

An artifact's name is the digest of its bytes, checked when it was fetched, so a remembered one can never be out of date.
"""

from __future__ import annotations

from collections import OrderedDict

from gatewright.bus.port import Bus

#: Bytes kept in memory, and the size above which one artifact is not kept.
TOTAL_BYTES = 64 * 1024 * 1024
ONE_ARTIFACT = 4 * 1024 * 1024


class ArtifactCache:
    """Stores and fetches through ``bus``; raises what the bus raises."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def put_artifact(self, data: bytes) -> str:
        """Store bytes; returns ``artifact:sha256:<hex>``."""
        uri = await self._bus.put_artifact(data)
        self._remember(uri, data)
        return uri

    async def get_artifact(self, uri: str) -> bytes:
        """The bytes of an artifact, digest checked. Raises ArtifactError."""
        known = self._known.get(uri)
        if known is not None:
            self._known.move_to_end(uri)
            return known
        data = await self._bus.get_artifact(uri)
        self._remember(uri, data)
        return data

    async def get_upload(self, uri: str, publisher: str) -> bytes:
        """The bytes of an artifact that this publisher has stored: what others' runs had is not given to it."""
        return await self._bus.get_upload(uri, publisher)

    def _remember(self, uri: str, data: bytes) -> None:
        if uri in self._known or len(data) > ONE_ARTIFACT:
            return
        self._known[uri] = data
        self._size += len(data)
        while self._size > TOTAL_BYTES:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped)
