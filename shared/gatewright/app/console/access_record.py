"""Who looked at what, where the operator wants that to be recorded: a line of JSON for each page, before it is shown.

A line that cannot be written keeps the page from being shown. Written are who, when, which page and what came of it; never a
token, a form, or what a page said.
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

from gatewright.app.console.doors import SESSION_COOKIE, SignedIn
from gatewright.clock import Clock, timestamp
from gatewright.errors import ConfigurationError

#: What pages ask by themselves, as long as they are open.
_UNASKED: Final = ("/static/", "/events", "/system")
_LONGEST: Final = 500


class AccessLine(msgspec.Struct, frozen=True):
    """``who``: whom the sign-in names. ``session``: tells one sign-in from another; it cannot be used as one."""

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
    """Appended to, by this account alone; a file that was moved away is begun anew."""

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
    """Raises ConfigurationError where nothing can be written there."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}", code="configuration_invalid") from error
    return AccessFile(path)


class AccessRecord:
    """Before the doors, so that those who were turned away are recorded too."""

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
                    self._file.append(self._line(scope, session, who, role or "", message["status"]))
                except OSError:
                    unwritten = True
                    words = "this page is recorded, and that cannot be written now\n"
                    await PlainTextResponse(words, 503)(scope, receive, send)
            if not unwritten:
                await send(message)

        await self._app(scope, receive, recorded)

    def _line(self, scope: Scope, session: str, who: str, role: str, status: int) -> AccessLine:
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
