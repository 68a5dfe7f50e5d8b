"""In-memory cache of recently used artifacts. The gates of a run and its bundle read the same artifacts many times.

An artifact's name is the digest of its bytes, checked on fetch, so a cached artifact can never be stale.
"""

from __future__ import annotations

from collections import OrderedDict

from gatewright.bus.port import Bus

#: Bytes kept in memory, and the size above which an artifact is not cached.
TOTAL_BYTES = 64 * 1024 * 1024
ONE_ARTIFACT = 4 * 1024 * 1024


class ArtifactCache:
    """Cache in front of the artifact store of ``bus``. Errors of the bus pass through."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def put_artifact(self, data: bytes) -> str:
        """Store bytes.

        Returns:
            ``artifact:sha256:<hex>``.
        """
        uri = await self._bus.put_artifact(data)
        self._remember(uri, data)
        return uri

    async def get_artifact(self, uri: str) -> bytes:
        """Return the bytes of an artifact after checking its digest.

        Raises:
            ArtifactError: the artifact is missing, or its bytes have another digest.
        """
        known = self._known.get(uri)
        if known is not None:
            self._known.move_to_end(uri)
            return known
        data = await self._bus.get_artifact(uri)
        self._remember(uri, data)
        return data

    async def get_upload(self, uri: str, publisher: str) -> bytes:
        """Return the bytes of an artifact that ``publisher`` itself has stored.

        Artifacts of other publishers' runs are refused, so that a publisher cannot read them by their digest.
        """
        return await self._bus.get_upload(uri, publisher)

    def _remember(self, uri: str, data: bytes) -> None:
        if uri in self._known or len(data) > ONE_ARTIFACT:
            return
        self._known[uri] = data
        self._size += len(data)
        while self._size > TOTAL_BYTES:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped)
