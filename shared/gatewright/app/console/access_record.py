"""The optional access record: a line of JSON for each page, written before the page is shown.

If the line cannot be written, the page is not shown. A line has person, time, page and result; never a token, a form, or
the content of a page.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gatewright.app.console.access_check import SESSION_COOKIE, SignedIn
from gatewright.clock import Clock, timestamp
from gatewright.errors import ConfigurationError

#: Requests that open pages send by themselves.
_UNASKED: Final = ("/static/", "/events", "/system")
_LONGEST: Final = 500


class AccessLine(msgspec.Struct, frozen=True):
    """``who``: the person of the sign-in. ``session``: distinguishes sign-ins; it cannot be used as a session."""

    at: str
    who: str
    role: str
    session: str
    method: str
    page: str
    query: str
    status: int


@dataclass(frozen=True, slots=True)
class AccessFile:
    """A log that only this account can write; if the file is moved away, a new one is started."""

    path: Path

    def append(self, line: AccessLine) -> None:
        """Raises OSError."""
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            data = msgspec.json.encode(line) + b"\n"
            if os.write(file, data) != len(data):
                raise OSError("the line was cut off")
        finally:
            os.close(file)


def open_record(path: Path) -> AccessFile:
    """Open the record for appending. Raises ConfigurationError if it cannot be written."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}", code="configuration_invalid") from error
    return AccessFile(path)


class AccessRecord:
    """Runs before the access check, so that refused requests are recorded too."""

    def __init__(self, app: ASGIApp, signed_in: SignedIn, file: AccessFile, clock: Clock) -> None:
        self._app, self._signed_in, self._file, self._clock = app, signed_in, file, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_UNASKED):
            await self._app(scope, receive, send)
            return
        session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        # A sign-out ends the session before its answer is sent.
        who, role = self._signed_in.who_of(session), self._signed_in.role_of(session)
        unwritten = False

        async def recorded(message: Message) -> None:
            nonlocal unwritten
            if message["type"] == "http.response.start":
                try:
                    self._file.append(self._access_line(scope, session, who, role or "", message["status"]))
                except OSError:
                    unwritten = True
                    words = "this page is recorded, and that cannot be written now\n"
                    await PlainTextResponse(words, 503)(scope, receive, send)
            if not unwritten:
                await send(message)

        await self._app(scope, receive, recorded)

    def _access_line(self, scope: Scope, session: str, who: str, role: str, status: int) -> AccessLine:
        return AccessLine(
            at=timestamp(self._clock.now()),
            who=who,
            role=role,
            session=hashlib.sha256(session.encode()).hexdigest()[:16] if role and session else "",
            method=str(scope["method"])[:16],
            page=str(scope["path"])[:_LONGEST],
            query=scope.get("query_string", b"").decode("latin-1")[:_LONGEST] if role else "",
            status=status,
        )
