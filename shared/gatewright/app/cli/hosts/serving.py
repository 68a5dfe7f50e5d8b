"""How the server is reached: by standard input and output of a host that starts it, or by HTTP with a token."""

from __future__ import annotations

import hmac

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gatewright.app.http_access import listening_socket

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


async def serve_http(server: MCPServer[None], host: str, port: int, token: str, names: tuple[str, ...] = ()) -> None:
    """Serve until the process is told to end. ``names``: further values of the Host header that are answered.

    Raises UnavailableError (``address_unavailable``).
    """
    known = [*(f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]", host)), *names]
    origins = [f"http://{name}" for name in known] + [f"https://{name}" for name in names]
    security = TransportSecuritySettings(allowed_hosts=known, allowed_origins=origins)
    app = RequireToken(
        server.streamable_http_app(transport_security=security, host=host, max_request_body_size=_MAX_BODY), token
    )
    with listening_socket(host, port) as listening:
        await uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).serve(sockets=[listening])
