"""The answer to an installer: its head is made here, and its content passes through in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Mapping
from http.client import responses
from typing import Final

from gatewright.errors import DeniedError, GatewrightError, UnavailableError

_LINGER: Final = 1.0
_PIECE: Final = 1 << 16
#: What the writers of asyncio raise for a client that has gone.
GONE: Final = (OSError, ssl.SSLError, asyncio.IncompleteReadError)


class Answer:
    """One answer on a client's connection. ``whole``: all of it was sent. ``bare``: it has no content (HEAD).

    An answer that ends early closes the connection without the end that its head announced, so that the client sees it.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._chunked = False
        self._head = b""
        self.bare = False
        self.stays = False
        self.begun = False
        self.whole = False

    async def begin(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        """Send the head, with the first piece or the end. ``length``: of the content; None if it is not known."""
        bodiless = self.bare or status in {204, 304}
        framing = {} if length is None else {"Content-Length": str(length)}
        if length is None and not bodiless:
            self._chunked, framing = True, {"Transfer-Encoding": "chunked"}
        fields = {**headers, **framing, "Connection": "keep-alive" if self.stays else "close"}
        lines = [
            f"HTTP/1.1 {status} {responses.get(status, 'Answer')}",
            *(f"{name}: {value}" for name, value in fields.items()),
            "",
            "",
        ]
        self.begun = True
        self._head = "\r\n".join(lines).encode("latin-1", "replace")

    async def invite(self) -> None:
        """Have the client send the body that it announced (RFC 9110, 10.1.1)."""
        await self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def send(self, part: bytes) -> None:
        """Send a piece of the content."""
        if part and not self.bare:
            await self._write(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)

    async def end(self) -> None:
        """Mark the end of the content."""
        if self._chunked or self._head:
            await self._write(b"0\r\n\r\n" if self._chunked else b"")
        self.whole = True

    async def refuse(self, error: GatewrightError) -> None:
        """Answer with the error as a line of JSON, if nothing was sent; then the connection ends."""
        self.stays = False
        if self.begun and not self._head:
            return
        self._chunked = False
        body = json.dumps({"code": error.reason, "message": error.message}).encode() + b"\n"
        await self.begin(403 if isinstance(error, DeniedError) else 502, {"Content-Type": "application/json"}, len(body))
        await self.send(body)
        await self.end()

    async def _write(self, data: bytes) -> None:
        data, self._head = self._head + data, b""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except GONE as error:
            raise UnavailableError("the installer closed the connection", code="egress_interrupted") from error


async def close_politely(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a connection so that the client can read the last answer: unread data would reset it."""
    with contextlib.suppress(TimeoutError, *GONE):
        async with asyncio.timeout(_LINGER):
            await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
            while await reader.read(_PIECE):
                pass
