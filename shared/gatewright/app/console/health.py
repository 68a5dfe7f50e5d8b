"""Whether the console works and has read the ledger, for the probes of an engine or a cluster. It tells strangers nothing else.

A probe calls by an address that is no name of the page and brings no sign-in, so that these two paths lie before the doors.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

#: The process answers; the board has been read.
ALIVE, READY = "/healthz", "/readyz"


class HealthPaths:
    """In front of everything. ``ready``: whether the board has been read.

    It stays so while the bus is away: pages say that they are not live, and no reader would see them otherwise.
    """

    def __init__(self, app: ASGIApp, ready: Callable[[], bool]) -> None:
        self._app, self._ready = app, ready

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in {ALIVE, READY} or scope["method"] not in {"GET", "HEAD"}:
            await self._app(scope, receive, send)
            return
        good = scope["path"] == ALIVE or self._ready()
        answer = PlainTextResponse("ok\n" if good else "not ready\n", 200 if good else 503, {"Cache-Control": "no-store"})
        await answer(scope, receive, send)
