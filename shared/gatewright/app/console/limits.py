"""A rate limit per browser: one token bucket per session, so that a faulty one does not affect others."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.app.console.access_check import SESSION_COOKIE, SignedIn
from gatewright.app.http_access import AskingRate

#: Burst of requests, and sustained requests per second.
BURST: Final = 300.0
EACH_SECOND: Final = 20.0


class RateLimit:
    """Runs after the access check, for signed-in people: others only see the sign-in, which has limits of its own."""

    def __init__(self, app: ASGIApp, signed_in: SignedIn, rate: AskingRate) -> None:
        self._app, self._signed_in, self._rate = app, signed_in, rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._signed_in.wanted and not scope["path"].startswith("/static/"):
            session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
            # A session that was made up has no bucket.
            if self._signed_in.role_of(session) is not None and (wait := self._rate.wait_of(session)):
                words = "too many questions at once: wait a moment\n"
                await PlainTextResponse(words, 429, {"Retry-After": str(int(wait) + 1)})(scope, receive, send)
                return
        await self._app(scope, receive, send)
