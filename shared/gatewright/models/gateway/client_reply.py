"""The reply to a client's call: the head once, then piece after piece, kept for the record as sent."""

from __future__ import annotations

import asyncio
import hashlib

from aiohttp import web

from gatewright.errors import UnavailableError
from gatewright.models.gateway.reading import GatewayLimits

#: Bytes of a reply that are kept.
_KEPT = 16 << 20
_NEVER_SENT = 499


class ClientReply:
    """``whole`` is set by the caller when the reply is complete."""

    def __init__(self, http: web.BaseRequest, limits: GatewayLimits) -> None:
        self.status = _NEVER_SENT
        self.content_type = "application/json"
        self.whole = False
        self._http = http
        self._limits = limits
        self._response: web.StreamResponse | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._digest = hashlib.sha256()

    @property
    def begun(self) -> bool:
        """Return whether the client has received anything."""
        return self._response is not None

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """Return the sent pieces; none for a reply too large to keep."""
        return tuple(self._pieces) if self.is_kept else ()

    @property
    def is_kept(self) -> bool:
        return self._size <= _KEPT

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def write(self, data: bytes, content_type: str, *, status: int = 200) -> None:
        """Send a piece. Raises UnavailableError for a client that does not receive, or is gone."""
        try:
            if self._response is None:
                self.status, self.content_type = status, content_type
                response = web.StreamResponse(
                    status=status, headers={"Content-Type": content_type, "Cache-Control": "no-store"}
                )
                await response.prepare(self._http)
                self._response = response
            if data:
                self._keep_piece(data)
                async with asyncio.timeout(self._limits.client_seconds):
                    await self._response.write(data)
        except TimeoutError:
            raise UnavailableError("the client does not take the reply", code="model_unavailable") from None
        except ConnectionError:
            raise UnavailableError("the client is gone", code="model_unavailable") from None

    async def finished(self) -> web.StreamResponse:
        """The reply has ended. Raises UnavailableError for one that was empty."""
        if self._response is None:
            raise UnavailableError("the provider's reply is empty", code="model_reply_invalid")
        await self._response.write_eof()
        return self._response

    def cut(self) -> web.StreamResponse | None:
        """Close the connection in the middle of a reply, so that no client takes it as complete. None if nothing was sent
        yet."""
        if self._response is not None and self._http.transport is not None:
            self._http.transport.abort()
        return self._response

    def instead(self, status: int, body: bytes, headers: dict[str, str]) -> web.Response:
        """Return an answer of the gateway instead of a reply."""
        self.status, self.whole = status, True
        self._keep_piece(body)
        return web.Response(status=status, body=body, content_type=self.content_type, headers=headers)

    def _keep_piece(self, data: bytes) -> None:
        self._size += len(data)
        self._digest.update(data)
        if self.is_kept:
            self._pieces.append(data)
        else:
            self._pieces.clear()
