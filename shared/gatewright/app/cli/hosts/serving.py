"""How the server is reached: by standard input and output of a host that starts it, or by HTTP with a token."""

from __future__ import annotations

import hmac
import os
import stat
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.errors import ConfigurationError

#: Characters of a token: 32 of hexadecimal digits are 128 bits.
_SHORTEST_TOKEN = 32
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
#: Bytes of one question: a patch, and what is around it.
_MAX_BODY = 8 << 20


class RequireToken:
    """Answers 401 to all that does not bring the token, before anything of it is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope.get("headers", ()) if name == b"authorization"]
        if len(given) == 1 and hmac.compare_digest(given[0], self._wanted):
            await self._app(scope, receive, send)
            return
        refused = PlainTextResponse("a token is needed\n", 401, {"WWW-Authenticate": 'Bearer realm="gatewright"'})
        await refused(scope, receive, send)


def read_token(file: Path) -> str:
    """The token in a file that other accounts of this host may not read. Raises ConfigurationError."""
    try:
        with file.open(encoding="ascii") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            token = opened.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}", code="configuration_invalid") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ConfigurationError(f"{file} may be read by others: chmod 600 {file}", code="configuration_invalid")
    if len(token) < _SHORTEST_TOKEN or not token.isalnum():
        words = f"{file} holds no token: {_SHORTEST_TOKEN} letters and digits or more, for instance of `openssl rand -hex 32`"
        raise ConfigurationError(words, code="configuration_invalid")
    return token


def check_address(host: str, *, behind_proxy: bool) -> None:
    """Raises ConfigurationError for an address that others reach, where no proxy is said to speak TLS for it."""
    if host not in _LOOPBACK and not behind_proxy:
        words = (
            f"{host} can be reached by others, and this server speaks no TLS: put a proxy that does before it (--behind-proxy)"
        )
        raise ConfigurationError(words, code="configuration_invalid")


async def serve_http(server: MCPServer[None], host: str, port: int, token: str, names: tuple[str, ...] = ()) -> None:
    """Serve until the process is told to end. ``names``: further values of the Host header that are answered."""
    known = [*(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", host)), *names]
    origins = [f"http://{name}" for name in known] + [f"https://{name}" for name in names]
    security = TransportSecuritySettings(allowed_hosts=known, allowed_origins=origins)
    app = RequireToken(
        server.streamable_http_app(transport_security=security, host=host, max_request_body_size=_MAX_BODY), token
    )
    await uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False)).serve()
