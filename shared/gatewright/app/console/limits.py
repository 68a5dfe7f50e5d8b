"""How often one browser may ask: a bucket for each session, so that one that runs wild leaves the others their page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.app.console.doors import SESSION_COOKIE, SignedIn

#: Questions that may come at once, and in a second in the long run.
BURST: Final = 300.0
EACH_SECOND: Final = 20.0
#: Buckets that are kept; the one that was longest not asked for goes.
_MOST_BUCKETS: Final = 1_000


@dataclass(slots=True)
class AskingRate:
    """``clock``: monotonic seconds."""

    clock: Callable[[], float]
    burst: float = BURST
    each_second: float = EACH_SECOND
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_of(self, who: str) -> float:
        """Takes one question of ``who``; 0, or the seconds until there is room for it, which is not taken then."""
        now = self.clock()
        left, at = self._buckets.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.each_second)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self.each_second
        self._buckets[who] = (left if wait else left - 1.0, now)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class RateLimit:
    """Behind the doors, for those who have signed in: strangers see the sign-in alone, which has limits of its own."""

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
