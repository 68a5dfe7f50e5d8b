"""The operator's tool servers (Model Context Protocol), which agents call through the worker.

Each server runs in a sandbox of its own without a network, on the files that the agent began with. Its writes are dropped.
Agents send messages by HTTP to the gateway of their task. The worker answers them from its own session with the server,
forwards calls of the tools that the contract names, and records each call.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import web

from gatewright.agents.installation import InstalledProgram
from gatewright.agents.policy import ToolServer, server_of
from gatewright.errors import AgentWireError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.models.apis.endpoints import TOOLS_PATH
from gatewright.models.gateway.reading import GatewayLimits, read_body
from gatewright.sandbox import Furnishing, SandboxLimits, TalkingSandbox, WorkingFolder
from gatewright.sandbox.environments import Shown
from gatewright.services.worker.agents.port import AgentToolCall, EmitEvent, ToolOutcome, Wire
from gatewright.services.worker.agents.reporter import quote_text
from gatewright.services.worker.agents.wire import JsonLines
from gatewright.version import __version__

UNAVAILABLE: Final = "tool_server_unavailable"
#: The version of the protocol that servers are asked for; they may answer with another.
_VERSION: Final = "2025-06-18"
_START_SECONDS: Final = 60.0
_CALL_SECONDS: Final = 300.0
#: A server may be idle as long as its agent works.
_SILENCE_SECONDS: Final = 1e6
_MOST_CALLS: Final = 2_000
_MOST_PAGES: Final = 20
_MOST_CHARACTERS: Final = 2_000
#: Codes of JSON-RPC: no such method, wrong parameters, an error of the server.
_NO_METHOD, _WRONG, _FAILED = -32601, -32602, -32603

Object = Mapping[str, object]


class ToolServers:
    """The running servers of one task, and the tools of each that the contract names."""

    def __init__(self, tools: Sequence[str], emit: EmitEvent, limits: GatewayLimits) -> None:
        self._tools = frozenset(tools)
        self._emit = emit
        self._limits = limits
        self._servers: dict[str, _Session] = {}
        self._listening: list[asyncio.Future[None]] = []
        self._calls = 0

    async def begin(self, name: str, wire: Wire) -> None:
        """Begin the session with a server that runs. Raises AgentWireError."""
        session = self._servers[name] = _Session(name, wire)
        self._listening.append(asyncio.ensure_future(session.listen()))
        await session.begin({tool.partition(".")[2] for tool in self._tools if server_of(tool) == name})

    async def end(self) -> None:
        """Read no more of the servers."""
        for listening in self._listening:
            listening.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer one message of an agent (Streamable HTTP, without a stream)."""
        session = self._servers.get(request.path.removeprefix(TOOLS_PATH))
        if session is None:
            return web.Response(status=404)
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        try:
            message = read_json(await read_body(request, self._limits))
        except (MalformedError, UnreadableDocumentError):
            return web.Response(status=400)
        number = message.get("id") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not (number is None or type(number) in {int, str}):
            return web.Response(status=400)
        if number is None or not isinstance(message.get("method"), str):
            return web.Response(status=202)
        answer = await self._answer_to(session, message)
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": number, **answer})
        return web.Response(body=body, content_type="application/json")

    async def _answer_to(self, session: _Session, message: Object) -> Object:
        match message["method"]:
            case "initialize":
                return {"result": session.greeting}
            case "ping":
                return {"result": {}}
            case "tools/list":
                return {"result": {"tools": session.tools}}
            case "tools/call":
                return await self._call(session, message.get("params"))
        return _error_answer(_NO_METHOD, "this is not offered")

    async def _call(self, session: _Session, params: object) -> Object:
        given = params if isinstance(params, dict) else {}
        tool, arguments = quote_text(given.get("name"), 100), given.get("arguments", {})
        self._calls += 1
        if tool not in session.names or not isinstance(arguments, dict):
            answer = _error_answer(_WRONG, f"the contract names no tool {session.name}.{tool}")
            self._emit_call(session, tool, arguments, answer, "refused")
        elif self._calls > _MOST_CALLS:
            answer = _error_answer(_FAILED, f"a task calls at most {_MOST_CALLS} tools")
            self._emit_call(session, tool, arguments, answer, "refused")
        else:
            try:
                answer = await session.ask("tools/call", {"name": tool, "arguments": arguments}, _CALL_SECONDS)
            except AgentWireError as error:
                answer = _error_answer(_FAILED, f"the server {session.name} does not answer: {error.message}")
            result = answer.get("result")
            failed = not isinstance(result, dict) or result.get("isError") is True
            self._emit_call(session, tool, arguments, answer, "failed" if failed else "answered")
        return answer

    def _emit_call(self, session: _Session, tool: str, arguments: object, answer: Object, outcome: ToolOutcome) -> None:
        data = msgspec.json.encode(answer)
        self._emit(
            AgentToolCall(
                tool=f"{session.name}.{tool}",
                arguments=quote_text(msgspec.json.encode(arguments).decode(), _MOST_CHARACTERS),
                outcome=outcome,
                answer_sha256=hashlib.sha256(data).hexdigest(),
                answer_bytes=len(data),
            )
        )


@asynccontextmanager
async def open_tool_servers(
    programs: Sequence[tuple[InstalledProgram[ToolServer], WorkingFolder]],
    servers: ToolServers,
    sandbox: TalkingSandbox,
    prefix: Shown,
    limits: SandboxLimits,
) -> AsyncIterator[ToolServers]:
    """Start the programs, each in a sandbox on a folder of its own, and stop them at the end.

    Raises:
        UnavailableError: ``tool_server_unavailable``: a server does not begin a session, or lacks a tool.
        SandboxError: the sandbox does not work.
    """
    async with AsyncExitStack() as running:
        running.push_async_callback(servers.end)
        for program, folder in programs:
            name = program.entry.name
            furnishing = Furnishing(shown=(program.folder,), variables=program.entry.variables)
            session = sandbox.session(program.argv, workspace=folder, prefix=prefix, limits=limits, furnishing=furnishing)
            held = await running.enter_async_context(session)
            try:
                await servers.begin(name, JsonLines(held, silence_seconds=_SILENCE_SECONDS))
            except AgentWireError as error:
                raise UnavailableError(f"the tool server {name}: {error.message}", code=UNAVAILABLE) from error
        yield servers


class _Session:
    """The worker's session with one server. ``greeting`` and ``tools`` are what agents receive of it."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self.greeting: Object = {}
        self.tools: Sequence[Object] = ()
        self._wire = wire
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Object]] = {}
        self._writing = asyncio.Lock()
        self._end = ""

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the tools that may be called."""
        return frozenset(str(tool["name"]) for tool in self.tools)

    async def begin(self, wanted: set[str]) -> None:
        """Initialize, and read the list of tools. Raises AgentWireError, also if one of ``wanted`` is missing."""
        info = {"name": "gatewright", "version": __version__}
        params = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": info}
        greeting = _result_of(await self.ask("initialize", params, _START_SECONDS))
        self.greeting = {**greeting, "capabilities": {"tools": {}}}
        await self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.tools = [tool for tool in await self._listed() if tool.get("name") in wanted]
        if missing := sorted(wanted - self.names):
            raise AgentWireError(f"it has no tool {', '.join(missing)}")

    async def _listed(self) -> list[Object]:
        listed: list[Object] = []
        params: dict[str, object] = {}
        for _ in range(_MOST_PAGES):
            page = _result_of(await self.ask("tools/list", params, _START_SECONDS))
            found = page.get("tools")
            listed += [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []
            if not isinstance(cursor := page.get("nextCursor"), str):
                break
            params = {"cursor": cursor}
        return listed

    async def ask(self, method: str, params: Object, seconds: float) -> Object:
        """Return ``result`` or ``error`` of the answer. Raises AgentWireError: the server ended, or is silent."""
        if self._end:
            raise AgentWireError(self._end)
        self._number += 1
        number = self._number
        waiting: asyncio.Future[Object] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            async with asyncio.timeout(seconds):
                await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                return await waiting
        except TimeoutError:
            raise AgentWireError(f"it gave no answer in {seconds:g} s") from None
        finally:
            self._waiting.pop(number, None)

    async def listen(self) -> None:
        """Read the server's messages until it ends; then no question has an answer."""
        try:
            while (message := await self._wire.receive()) is not None:
                await self._take(message)
            self._end = "it has ended"
        except AgentWireError as error:
            self._end = error.message
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(AgentWireError(self._end))

    async def _take(self, message: Mapping[str, Any]) -> None:
        number = message.get("id")
        if "method" in message:
            if number is not None:
                await self._send({"jsonrpc": "2.0", "id": number, **_error_answer(_NO_METHOD, "this is not offered")})
            return
        waiting = self._waiting.get(number) if type(number) is int else None
        if waiting is not None and not waiting.done():
            waiting.set_result({key: message[key] for key in ("result", "error") if key in message})

    async def _send(self, message: Object) -> None:
        async with self._writing:
            await self._wire.send(message)


def _error_answer(code: int, words: str) -> Object:
    return {"error": {"code": code, "message": words}}


def _result_of(answer: Object) -> Object:
    result = answer.get("result")
    if not isinstance(result, dict):
        raise AgentWireError(f"it answers with an error: {quote_text(msgspec.json.encode(answer).decode(), 200)}")
    return result
