"""The small HTTP server of a process: ``/metrics``, ``/healthz``, ``/readyz``; plain text, GET and HEAD only.

It runs in the process's own event loop, so a hanging loop cannot answer and the probe notices. It shows nothing secret and
accepts no input: a request is its first line and its ``Accept`` header, bounded in size and time, as is the number of
connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from gatewright.errors import ConfigurationError

MAX_REQUEST_BYTES = 8_192
MAX_CONNECTIONS = 32
#: Seconds for one complete request and its answer.
REQUEST_SECONDS = 5.0
#: Port that means "no HTTP face at all".
OFF = -1

TEXT = "text/plain; charset=utf-8"
METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TEXT = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


#: Path -> function of the page, given the request's header ``Accept`` (or an empty text).
Pages = Mapping[str, Callable[[str], Page]]


def verdict_page(missing: Mapping[str, str]) -> Page:
    """200 ``ok``, or 503 with one line per thing that is missing and why."""
    if not missing:
        return Page(HTTPStatus.OK, b"ok\n")
    lines = "".join(f"{name}: {cause}\n" for name, cause in missing.items())
    return Page(HTTPStatus.SERVICE_UNAVAILABLE, lines.encode("utf-8", "backslashreplace"))


class HealthServer:
    """Serves pages on one address. ``port`` 0 takes any free one; ``port`` after ``start`` is the real one."""

    def __init__(self, pages: Pages, *, host: str, port: int) -> None:
        self._pages = pages
        self._host = host
        self.port = port
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        """Bind and serve. Raises ConfigurationError when the address cannot be had."""
        try:
            self._server = await asyncio.start_server(self._accept, self._host, self.port, limit=MAX_REQUEST_BYTES, backlog=16)
        except OSError as error:
            raise ConfigurationError(f"cannot serve metrics on {self._host}:{self.port}: {error.strerror or error}") from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for writer in self._connections.values():
            writer.transport.abort()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        if connection is None or len(self._connections) >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections[connection] = writer
        try:
            # Faults of a peer: slow, gone, too much data, incomplete data.
            with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError):
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._serve_page(reader, writer)
        finally:
            del self._connections[connection]
            writer.transport.abort()

    async def _serve_page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            page, body = Page(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"request too large\n"), True
        else:
            page, body = self._page(head)
        writer.write(_response(page, with_body=body))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _page(self, head: bytes) -> tuple[Page, bool]:
        """Return the page for a request head, and whether its body is wanted."""
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Page(HTTPStatus.BAD_REQUEST, b"not an HTTP/1 request\n"), True
        method, target, _version = words
        if method not in (b"GET", b"HEAD"):
            return Page(HTTPStatus.METHOD_NOT_ALLOWED, b"GET or HEAD\n"), True
        shown = self._pages.get(target.split(b"?", 1)[0].decode("latin-1"))
        page = shown(_accept_header(head)) if shown is not None else Page(HTTPStatus.NOT_FOUND, b"/metrics /healthz /readyz\n")
        return page, method == b"GET"


def takes_open_metrics(accept: str) -> bool:
    """Return whether the client accepts OpenMetrics 1; without a version it accepts any."""
    for each in accept.split(","):
        kind, *parameters = (word.strip().lower() for word in each.split(";"))
        version = next((word for word in parameters if word.startswith("version=")), "version=1.0.0")
        if kind == "application/openmetrics-text" and version == "version=1.0.0" and "q=0" not in parameters:
            return True
    return False


def _accept_header(head: bytes) -> str:
    """The header ``Accept``; empty where there is none."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"accept":
            return value.strip().decode("latin-1")
    return ""


def _response(page: Page, *, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + (page.body if with_body else b"")
