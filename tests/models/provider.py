"""A scripted provider of models: a real HTTP server on loopback that plays all four APIs, and remembers what it was sent.

Its turns are chosen by the base URL's path (``/s/NAME``), or by the model's name; the step is read from the request's own
transcript, so that any number of clients can use one server at once.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from tests.models.turns import Answer, Call, Endless, Fail, Hang, Raw, Say, Script, Slow, Turn, as_call
from tests.models.wire_forms import Api, api_of, endless, offered_tools, reply, step_of, stream

KEY = "sk-scripted-provider-key-0123456789abcdef"
_LARGEST = 64 << 20


@dataclass(frozen=True)
class SeenRequest:
    """What reached the provider."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class ScriptedProvider:
    """``with ScriptedProvider({"fix": [Write("a.py", "x"), Say("done")]}) as provider``; it runs in a thread of its own."""

    def __init__(
        self,
        scripts: Mapping[str, Script] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._tls = tls
        self._host = host
        self.scripts: dict[str, Script] = dict(scripts or {})
        self.requests: list[SeenRequest] = []
        self.port = port
        #: Streams that ended because the client went away.
        self.given_up = threading.Event()
        self._failures: Counter[tuple[str, int]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    @property
    def root(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    def base_url(self, script: str, api: Api) -> str:
        """What a client of ``api`` takes as its base URL, or a policy as the provider's, for this script."""
        openai = api in ("responses", "chat_completions")
        return f"{self.root}/s/{script}" + ("/v1" if openai else "")

    def policy(
        self,
        script: str,
        *,
        role: str = "worker",
        prices: Mapping[str, float] | None = None,
        openai: tuple[Api, ...] = ("responses", "chat_completions"),
    ) -> dict[str, Any]:
        """A ``models.json`` whose only provider plays this script: ``scripted``, ``scripted-claude``, ``scripted-gemini``.

        The key is in the variable ``SCRIPTED_KEY``, which the test sets; ``openai`` are the APIs that serve ``scripted``.
        """
        return {
            "version": "1",
            "providers": [
                self.provider(script, name="scripted-openai", apis=list(openai)),
                self.provider(script, name="scripted-anthropic", apis=["messages"]),
                self.provider(script, name="scripted-google", apis=["gemini"]),
            ],
            "models": [
                {"name": "scripted", "provider": "scripted-openai", "price": prices},
                {"name": "scripted-claude", "provider": "scripted-anthropic", "price": prices},
                {"name": "scripted-gemini", "provider": "scripted-google", "price": prices},
            ],
            "routes": [{"role": role, "models": ["scripted", "scripted-claude", "scripted-gemini"]}],
        }

    def provider(self, script: str, *, name: str = "scripted", apis: list[str] | None = None) -> dict[str, Any]:
        """An entry of ``providers``; the APIs of one entry have the same form of base URL."""
        apis = apis or ["messages", "gemini"]
        base = self.base_url(script, "responses" if apis[0] in ("responses", "chat_completions") else "messages")
        return {"name": name, "apis": apis, "base_url": base, "key": {"environment": "SCRIPTED_KEY"}}

    async def _start(self) -> None:
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        request._client_max_size = _LARGEST
        data = await request.read()
        headers = tuple((key.decode("latin-1"), value.decode("latin-1")) for key, value in request.raw_headers)
        self.requests.append(SeenRequest(request.method, request.raw_path, headers, data))
        path = request.raw_path.partition("?")[0]
        api = api_of(path)
        if request.method == "GET" and path in {"/v1/models", "/v1beta/models"}:
            return self._list(path, request.headers)
        if request.method != "POST" or api is None:
            return web.json_response({"error": {"message": f"no such path: {path}"}}, status=404)
        body: dict[str, Any] = json.loads(data)
        if path.endswith(("/count_tokens", ":countTokens")):
            tokens = len(data) // 4
            return web.json_response({"input_tokens": tokens} if api == "messages" else {"totalTokens": tokens})
        name = (
            path.split("/")[2] if path.startswith("/s/") else str(body.get("model", path.rpartition("/")[2].partition(":")[0]))
        )
        streamed = bool(body.get("stream")) or ":streamGenerateContent" in path
        step = step_of(api, body)
        return await self._play(request, api, name, self._turn(name, step, body), step, body, streamed=streamed)

    def _list(self, path: str, headers: Mapping[str, str]) -> web.Response:
        """The scripts as models, in the form of the API whose list is asked for."""
        given = (
            headers.get("x-api-key")
            or headers.get("x-goog-api-key")
            or headers.get("Authorization", "").removeprefix("Bearer ")
        )
        if given != KEY:
            return web.json_response({"error": {"message": "no such key"}}, status=401)
        if path.endswith("/v1beta/models"):
            return web.json_response({"models": [{"name": f"models/{name}"} for name in self.scripts]})
        if "anthropic-version" in headers:
            entries = [{"type": "model", "id": name, "display_name": name} for name in self.scripts]
            return web.json_response({"data": entries, "has_more": False, "first_id": None, "last_id": None})
        return web.json_response({"object": "list", "data": [{"id": name, "object": "model"} for name in self.scripts]})

    def _turn(self, name: str, step: int, body: dict[str, Any]) -> Turn:
        script = self.scripts.get(name)
        if script is None:
            return Fail(404, json.dumps({"error": {"message": f"no script {name}"}}).encode())
        if callable(script):
            return script(body)
        return script[min(step, len(script) - 1)]

    async def _play(
        self, request: web.BaseRequest, api: Api, name: str, turn: Turn, step: int, body: dict[str, Any], *, streamed: bool
    ) -> web.StreamResponse:
        offered = offered_tools(api, body)
        match as_call(turn, offered):
            case Say() | Call() as plain:
                return await self._reply(request, api, plain, step, body, streamed=streamed)
            case Answer(value=value, usage=usage):
                wanted = _wanted_tool(body, offered)
                answer = Say(json.dumps(value), usage) if wanted is None else Call(wanted, value, usage)
                return await self._reply(request, api, answer, step, body, streamed=streamed)
            case Fail(status=status, body=data, headers=headers, times=times, then=then):
                self._failures[name, step] += 1
                if times and self._failures[name, step] > times:
                    return await self._reply(request, api, then or Say("at last"), step, body, streamed=streamed)
                return web.Response(status=status, body=data, headers={"Content-Type": "application/json", **headers})
            case Raw() as raw:
                return await self._raw(request, raw)
            case Slow(seconds=seconds, then=then):
                await self._until_gone(seconds)
                return await self._reply(request, api, then, step, body, streamed=streamed)
            case Endless(word=word, delay=delay):
                return await self._endless(request, api, word, delay)
            case Hang():
                await self._until_gone(3600)
            case other:
                raise AssertionError(f"no turn: {other}")
        return web.Response()

    async def _reply(
        self, request: web.BaseRequest, api: Api, turn: Say | Call, step: int, body: dict[str, Any], *, streamed: bool
    ) -> web.StreamResponse:
        if not streamed:
            return web.json_response(reply(api, turn, step, body))
        response = await _begun(request, 200, {"Content-Type": "text/event-stream"})
        for event in stream(api, turn, step, body):
            await response.write(event)
        await response.write_eof()
        return response

    async def _raw(self, request: web.BaseRequest, raw: Raw) -> web.StreamResponse:
        response = await _begun(request, raw.status, {"Content-Type": "application/json", **raw.headers})
        for piece in raw.pieces:
            await response.write(piece)
            await asyncio.sleep(raw.delay)
        if raw.close and request.transport is not None:
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    async def _endless(self, request: web.BaseRequest, api: Api, word: str, delay: float) -> web.StreamResponse:
        response = await _begun(request, 200, {"Content-Type": "text/event-stream"})
        try:
            for event in endless(api, word):
                await response.write(event)
                await asyncio.sleep(delay)
        except (ConnectionError, asyncio.CancelledError):
            self.given_up.set()
            raise
        return response

    async def _until_gone(self, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.given_up.set()
            raise


async def _begun(request: web.BaseRequest, status: int, headers: Mapping[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(status=status, headers=headers)
    await response.prepare(request)
    return response


def _wanted_tool(body: dict[str, Any], offered: Mapping[str, str]) -> str | None:
    """The tool that the client forces, or one that is plainly for the final answer."""
    for name in ("final_result", "StructuredOutput"):
        if name in offered:
            return name
    choice = body.get("tool_choice")
    forced = choice.get("name") or (choice.get("function") or {}).get("name") if isinstance(choice, dict) else None
    return forced or (next(iter(offered)) if len(offered) == 1 and choice in ("required", {"type": "any"}) else None)
