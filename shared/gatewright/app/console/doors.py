"""Who is let in: names in ``Host`` and ``Origin``, a token where one is wanted, what browsers are told with every answer."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_COOKIE = "gatewright_session"
FORM_COOKIE = "gatewright_form"
#: Seconds for which a sign-in counts, and how many there are at a time; the oldest goes.
SESSION_SECONDS = 12 * 3600.0
_MOST_SESSIONS = 500
#: Wrong tokens within so many seconds, after which none is looked at.
_MOST_WRONG, _WRONG_SECONDS = 10, 60.0
_OPEN_PATHS = ("/sign-in", "/static/")

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(slots=True)
class SignedIn:
    """Sign-ins in the memory of this process. ``token`` None: none is wanted. ``clock``: monotonic seconds."""

    token: str | None
    clock: Callable[[], float]
    _sessions: dict[str, float] = field(default_factory=dict)
    _wrong: list[float] = field(default_factory=list)

    def sign_in(self, given: str) -> str | None:
        """A new session for the right token; None for a wrong one, or after too many wrong ones."""
        now = self.clock()
        self._wrong = [at for at in self._wrong if now - at < _WRONG_SECONDS]
        if self.token is None or len(self._wrong) >= _MOST_WRONG:
            return None
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            self._wrong.append(now)
            return None
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = now
        return session

    def knows(self, session: str) -> bool:
        """Whether a request with this cookie is let in."""
        if self.token is None:
            return True
        begun = self._sessions.get(session)
        return begun is not None and self.clock() - begun < SESSION_SECONDS

    def sign_out(self, session: str) -> None:
        self._sessions.pop(session, None)


def same_form(cookie: str, given: str) -> bool:
    """Whether a form was made for this browser by this server."""
    return len(cookie) >= 32 and hmac.compare_digest(cookie.encode(), given.encode())


class Doors:
    """In front of every page. ``hosts``: the names that it is reached by, with port where there is one."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], origins: frozenset[str], signed_in: SignedIn) -> None:
        self._app, self._hosts, self._origins, self._signed_in = app, hosts, origins, signed_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        headers = Headers(scope=scope)
        # A page of another site can reach this one by a name of its own, or send forms and questions here.
        if headers.getlist("host") != [headers.get("host", "")] or headers.get("host") not in self._hosts:
            await PlainTextResponse("this name is not known here\n", 421)(scope, receive, guarded)
            return
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            await PlainTextResponse("another site may not ask here\n", 403)(scope, receive, guarded)
            return
        session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        if not scope["path"].startswith(_OPEN_PATHS) and not self._signed_in.knows(session):
            refused = (
                PlainTextResponse("sign in first\n", 401) if scope["path"] == "/events" else RedirectResponse("/sign-in", 303)
            )
            await refused(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)
