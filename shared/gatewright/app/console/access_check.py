"""Access control: names in ``Host`` and ``Origin``, an optional token, and security headers of every response."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatewright.app.console.roles import WITHOUT_TOKEN, ConsoleRole, may
from gatewright.app.http_access import read_body
from gatewright.contracts.vocabulary import Person
from gatewright.errors import DeniedError, GatewrightError, MalformedError

SESSION_COOKIE = "gatewright_session"
FORM_COOKIE = "gatewright_form"
#: Seconds that a sign-in is valid, and the maximum number; the oldest is removed.
SESSION_SECONDS = 12 * 3600.0
_MOST_SESSIONS = 500
#: Wrong tokens within so many seconds, after which none is looked at.
_MOST_WRONG, _WRONG_SECONDS = 10, 60.0
_MOST_FIELDS = 32
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


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """A signed-in person: all their names, the best known first, and the author identity for commits."""

    names: tuple[str, ...]
    author: Person | None = None


@dataclass(frozen=True, slots=True)
class _Session:
    """``who``: as whom it was begun, for the record. ``person`` None: any who has the token."""

    ends: float
    role: ConsoleRole
    who: str
    person: SignedInPerson | None


@dataclass(slots=True)
class SignedIn:
    """Sign-ins in the memory of this process. ``tokens``: by token its role.

    ``clock``: monotonic seconds. ``most``: the highest role here. ``provider``: whether people sign in at a provider.
    Without token and provider, no sign-in is required.
    """

    tokens: Mapping[str, ConsoleRole]
    clock: Callable[[], float]
    most: ConsoleRole = "operator"
    provider: bool = False
    _sessions: dict[str, _Session] = field(default_factory=dict)
    _wrong: list[float] = field(default_factory=list)

    @property
    def wanted(self) -> bool:
        """Return whether people must sign in."""
        return bool(self.tokens) or self.provider

    def sign_in(self, given: str) -> str | None:
        """A new session for the right token; None for a wrong one, or after too many wrong ones."""
        now = self.clock()
        self._wrong = [at for at in self._wrong if now - at < _WRONG_SECONDS]
        if len(self._wrong) >= _MOST_WRONG:
            return None
        # Compare with all, so that the time does not reveal how many precede the right one.
        found = [role for token, role in self.tokens.items() if hmac.compare_digest(given.encode(), token.encode())]
        if not found:
            self._wrong.append(now)
            return None
        return self.begin(found[0], who=f"token of the role {found[0]}")

    def begin(
        self, role: ConsoleRole, seconds: float = SESSION_SECONDS, *, who: str, person: SignedInPerson | None = None
    ) -> str:
        """A new session, for so many seconds. ``who``: as whom, for the record; ``person``: the one that it is known to be."""
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = _Session(self.clock() + min(seconds, SESSION_SECONDS), role, who, person)
        return session

    def role_of(self, session: str) -> ConsoleRole | None:
        """Return the role of a request with this cookie; None: access is refused."""
        if not self.wanted:
            return WITHOUT_TOKEN if may(self.most, WITHOUT_TOKEN) else self.most
        known = self._sessions.get(session)
        if known is None or self.clock() >= known.ends:
            return None
        return known.role if may(self.most, known.role) else self.most

    def who_of(self, session: str) -> str:
        """Return the name under which the session was started; empty for an invalid session."""
        if not self.wanted:
            return "an account of this host"
        return self._sessions[session].who if self.role_of(session) is not None else ""

    def person_of(self, session: str) -> SignedInPerson | None:
        """Return the person of the session; None if unknown, or the session is invalid."""
        known = self._sessions.get(session)
        return known.person if known is not None and self.role_of(session) is not None else None

    def sign_out(self, session: str) -> None:
        self._sessions.pop(session, None)


def same_form(cookie: str, given: str) -> bool:
    """Return whether this server made the form for this browser."""
    return len(cookie) >= 32 and hmac.compare_digest(cookie.encode(), given.encode())


def status_of(error: GatewrightError) -> int:
    """Return the HTTP status for a refusal."""
    forbidden = dict.fromkeys(("role_not_allowed", "form_foreign", "sign_in_refused", "sign_in_no_role"), 403)
    known = {**forbidden, "approval_unknown": 404, "run_unknown": 404}
    by_family = {"bad_input": 400, "refused": 409, "failed": 409, "infrastructure": 503}
    return known.get(error.reason, by_family[error.family])


async def read_form(request: Request, most: int) -> dict[str, str]:
    """Return the fields of a form of at most ``most`` bytes. Raises MalformedError."""
    data = await read_body(request, most)
    try:
        return dict(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"))
    except ValueError as error:
        raise MalformedError(f"that is no form: {error}", code="malformed") from error


def check_sender(request: Request, signed_in: SignedIn, mark: str | None, wanted: ConsoleRole) -> None:
    """Check that a request comes from a form of this browser, and from a sufficient role.

    Raises DeniedError (``form_foreign``, ``role_not_allowed``).
    """
    if not same_form(request.cookies.get(FORM_COOKIE, ""), mark or ""):
        raise DeniedError("this did not come from a form of this page: load it again", code="form_foreign")
    role = signed_in.role_of(request.cookies.get(SESSION_COOKIE, ""))
    if role is None or not may(role, wanted):
        raise DeniedError(f"a {role or 'stranger'} may not do that here: it takes the role {wanted}", code="role_not_allowed")


class AccessCheck:
    """Access check in front of every page. ``hosts``: the accepted host names, with port if any.

    ``agent``: the origin of the signing agent, which pages may contact besides this server.
    """

    def __init__(
        self, app: ASGIApp, hosts: frozenset[str], origins: frozenset[str], signed_in: SignedIn, agent: str = ""
    ) -> None:
        self._app, self._hosts, self._origins, self._signed_in = app, hosts, origins, signed_in
        policy, own = "Content-Security-Policy", "connect-src 'self'"
        self._headers = {**_HEADERS, policy: _HEADERS[policy].replace(own, f"{own} {agent}".strip())}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                # A style or a script of an earlier version is not used with pages of this one.
                static = scope["path"].startswith("/static/")
                headers["Cache-Control"] = "no-cache" if static else "no-store"
            await send(message)

        headers = Headers(scope=scope)
        # A page of another site may reach this server through its own host name, or send forms and requests here.
        if headers.getlist("host") != [headers.get("host", "")] or headers.get("host") not in self._hosts:
            await PlainTextResponse("this name is not known here\n", 421)(scope, receive, guarded)
            return
        origin = headers.get("origin")
        if origin is not None and origin not in self._origins:
            await PlainTextResponse("another site may not ask here\n", 403)(scope, receive, guarded)
            return
        session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        if not scope["path"].startswith(_OPEN_PATHS) and self._signed_in.role_of(session) is None:
            refused = (
                PlainTextResponse("sign in first\n", 401) if scope["path"] == "/events" else RedirectResponse("/sign-in", 303)
            )
            await refused(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)
