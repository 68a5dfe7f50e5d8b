"""A rate limit per browser: one token bucket per session, so that a faulty one does not affect others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.app.console.access_check import SESSION_COOKIE, SignedIn

#: Burst of requests, and sustained requests per second.
BURST: Final = 300.0
EACH_SECOND: Final = 20.0
#: Maximum number of buckets; the least recently used is removed.
_MOST_BUCKETS: Final = 1_000


@dataclass(slots=True)
class AskingRate:
    """``clock``: monotonic seconds."""

    clock: Callable[[], float]
    burst: float = BURST
    each_second: float = EACH_SECOND
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_of(self, who: str) -> float:
        """Take one request of ``who``; return 0, or the seconds to wait, if none was available to take."""
        now = self.clock()
        left, at = self._buckets.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.each_second)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self.each_second
        self._buckets[who] = (left if wait else left - 1.0, now)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


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
