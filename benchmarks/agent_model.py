"""A model for the agents of benchmarks, on loopback: its name selects its behaviour, and it reports its real token counts.

``quick``: a command, a word, the end. ``thinking``: the same, each reply after two seconds. ``waiting``: it never answers.
``talking``: one reply without an end. ``turning``: command after command without an end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from gatewright.models.policy import ModelEntry, ModelsPolicy, Provider, Route
from gatewright.models.prices import Price
from gatewright.services.worker.agents.probe.model_apis import answer, read_request
from gatewright.services.worker.agents.probe.script import RunCommand, Text, reply_to

MODELS = ("quick", "thinking", "waiting", "talking", "turning")
THINKING_SECONDS = 2.0
#: Of ``talking``: bytes of one event, and events a second; a token is four bytes. No provider is as fast.
PIECE, PIECES_A_SECOND = 400, 50
DOLLARS = Price(input=1.0, output=10.0)
_BYTES_A_TOKEN = 4
_MOST_BYTES = 64 << 20


@dataclass
class BenchmarkModel:
    """``waiting``: requests that were never answered. ``sent``: (when, tokens so far) of the replies, ``cut``: when the client
    left one that had no end.
    """

    waiting: int = 0
    sent: list[tuple[float, int]] = field(default_factory=list)
    cut: float = 0.0
    port: int = 0
    _number: int = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[BenchmarkModel]:
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_post("/v1/responses", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def policy(self) -> ModelsPolicy:
        """A ``models.json`` that leads here."""
        provider = Provider(name="benchmark", apis=("responses",), base_url=f"{self.base_url}/v1")
        models = tuple(ModelEntry(name=name, provider=provider.name, price=DOLLARS) for name in MODELS)
        return ModelsPolicy(version="1", providers=(provider,), models=models, routes=(Route(role="worker", models=MODELS),))

    def forget(self) -> None:
        self.sent, self.cut, self.waiting = [], 0.0, 0

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        asked = read_request("responses", request.path, json.loads(body))
        self._number += 1
        match asked.model:
            case "waiting":
                self.waiting += 1
                await asyncio.Event().wait()
            case "talking":
                return await self._talk(request, len(body))
            case "thinking":
                await asyncio.sleep(THINKING_SECONDS)
        endless = asked.model == "turning"
        turn = (
            RunCommand("true") if endless else RunCommand("echo added >src/part0/added.py") if not asked.step else Text("done")
        )
        reply = answer("responses", asked, reply_to(turn, asked.tools), self._number)
        self._count(len(body))
        return web.Response(body=_honest(reply, len(body)).stream(), content_type="text/event-stream")

    async def _talk(self, request: web.Request, read: int) -> web.StreamResponse:
        """Words until the client leaves."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        self._count(read)
        begun = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
        await response.write(_event(begun) + _event({"type": "response.output_item.added", "output_index": 0, "item": item}))
        delta = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0, "content_index": 0}
        try:
            while True:
                await response.write(_event({**delta, "delta": "word " * (PIECE // 5)}))
                self._count(PIECE)
                await asyncio.sleep(1 / PIECES_A_SECOND)
        finally:
            self.cut = time.monotonic()

    def _count(self, size: int) -> None:
        before = self.sent[-1][1] if self.sent else 0
        self.sent.append((time.monotonic(), before + size // _BYTES_A_TOKEN))


def _honest(reply: Any, read: int) -> Any:
    """The reply, with the tokens that it took."""
    for _, event in reply.events:
        whole = event.get("response", {})
        if "usage" in whole:
            tokens = read // _BYTES_A_TOKEN
            whole["usage"] |= {"input_tokens": tokens, "total_tokens": tokens + whole["usage"]["output_tokens"]}
    return reply


def _event(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
