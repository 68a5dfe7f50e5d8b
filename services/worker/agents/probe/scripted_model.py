"""A scripted model over HTTP for any agent. Its only state is the record of its requests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.services.worker.agents.probe.model_apis import answer, api_of, read_request
from gatewright.services.worker.agents.probe.script import Fail, Never, Turn, next_turn, reply_to

_MOST_BYTES: Final = 64 << 20
#: Requests of one script that are remembered.
_MOST_SEEN: Final = 1_000


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that came. ``model`` is empty for a path of no API; ``body`` is what was sent."""

    path: str
    model: str
    body: bytes
    headers: tuple[tuple[str, str], ...]


class ScriptedModel:
    """Plays ``turns``: the next is chosen by how many tools the model has called in what the request shows."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = tuple(turns)
        self.seen: list[ReceivedRequest] = []
        #: Set once a request is to be answered never.
        self.held = asyncio.Event()

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """Answer what connects to ``listening`` while the context is open."""
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.SockSite(runner, listening).start()
            yield
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        api = api_of(request.path)
        try:
            document = read_json(body) if api else {}
        except UnreadableDocumentError:
            return web.json_response({"error": {"message": "this is no JSON"}}, status=400)
        asked = read_request(api, request.path, document if isinstance(document, dict) else {}) if api else None
        if len(self.seen) < _MOST_SEEN:
            self.seen.append(ReceivedRequest(request.path, asked.model if asked else "", body, tuple(request.headers.items())))
        if api is None or asked is None:
            return web.json_response({"error": {"message": "there is no such thing here", "code": 404}}, status=404)
        turn = next_turn(self._turns, asked)
        if isinstance(turn, Never):
            self.held.set()
            await asyncio.Event().wait()
        if isinstance(turn, Fail | Never):
            status = turn.status if isinstance(turn, Fail) else 500
            fault = {"type": "api_error", "code": status, "message": f"scripted {status}", "status": "UNAVAILABLE"}
            return web.json_response({"type": "error", "error": fault}, status=status)
        reply = answer(api, asked, reply_to(turn, asked.tools), len(self.seen))
        if not asked.stream:
            return web.json_response(reply.document)
        return web.Response(body=reply.stream(), content_type="text/event-stream")
