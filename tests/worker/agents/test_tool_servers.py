"""Tool servers behind the gateway of a task: agents reach the tools that the contract names, and nothing else of a server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gatewright.agents.installation import usable_agent
from gatewright.agents.policy import ToolServer
from gatewright.errors import AgentWireError, UnavailableError
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import load_models
from gatewright.resources import policy_directory
from gatewright.sandbox import SandboxLimits
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.services.worker.agents import tool_servers
from gatewright.services.worker.agents.port import AgentEvent, AgentToolCall
from gatewright.services.worker.agents.tool_servers import ToolServers, open_tool_servers
from gatewright.workspace import Workspaces
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.worker.agents.tool_program import install_server

Message = Mapping[str, Any]
Serve = Callable[[Message], list[Message] | None]


class ServedWire:
    """A ``Wire`` to a server that says ``serve(message)`` to each message, and ends at None."""

    def __init__(self, serve: Serve) -> None:
        self.told: list[Message] = []
        self._serve = serve
        self._said: asyncio.Queue[Message | None] = asyncio.Queue()

    async def receive(self) -> dict[str, object] | None:
        message = await self._said.get()
        return None if message is None else dict(message)

    async def receive_text(self) -> str | None:
        raise AssertionError("a server speaks JSON")

    async def send(self, message: Message) -> None:
        self.told.append(message)
        said = self._serve(message)
        for each in [None] if said is None else said:
            self._said.put_nowait(each)

    async def finish(self) -> None:
        raise AssertionError("a session ends with its sandbox")


def serve(message: Message) -> list[Message] | None:
    """A server with the tools ``lookup`` and ``secret``, on two pages, which also asks for more than it gets."""
    noise: Message = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
    question: Message = {"jsonrpc": "2.0", "id": "s-1", "method": "sampling/createMessage", "params": {}}

    def answer(result: Any) -> list[Message]:
        return [noise, {"jsonrpc": "2.0", "id": message["id"], "result": result}]

    match message.get("method"), message.get("params"):
        case "initialize", _:
            info = {"name": "docs", "version": "1"}
            return answer({"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}, "serverInfo": info})
        case "tools/list", {"cursor": "2"}:
            return answer({"tools": [{"name": "secret", "inputSchema": {}}, "none"]})
        case "tools/list", _:
            return answer({"tools": [{"name": "lookup", "inputSchema": {}}], "nextCursor": "2"})
        case "tools/call", {"arguments": {"q": "die"}}:
            return None
        case "tools/call", {"arguments": {"q": "fail"}}:
            return answer({"content": [], "isError": True})
        case "tools/call", _:
            return [question, *answer({"content": [{"type": "text", "text": "found"}]})]
    return [noise]


class Task:
    """A task with tools: posts messages as its agent, and reads what the worker recorded."""

    def __init__(self, session: aiohttp.ClientSession, events: list[AgentEvent], wire: ServedWire) -> None:
        self.wire = wire
        self._session = session
        self._events = events

    async def post(self, body: bytes | Message, path: str = "/mcp/docs", method: str = "POST") -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps({"jsonrpc": "2.0", **body}).encode()
        async with self._session.request(method, path, data=data) as response:
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def call(self, tool: str, arguments: object) -> Any:
        status, answer = await self.post(
            {"id": "a-1", "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        )
        assert (status, answer["id"]) == (200, "a-1")
        return answer

    @property
    def calls(self) -> list[tuple[str, str, str]]:
        return [(each.tool, each.arguments, each.outcome) for each in self._events if isinstance(each, AgentToolCall)]


@asynccontextmanager
async def open_task(serve: Serve = serve, *tools: str) -> AsyncIterator[Task]:
    events: list[AgentEvent] = []
    models = load_models(policy_directory()).policy
    gateway = ModelGateway(models, models.grant("worker"))
    servers = ToolServers(tools or ("docs.lookup",), events.append, gateway.limits)
    wire = ServedWire(serve)
    try:
        await servers.begin("docs", wire)
        gateway.tools = servers.answer
        async with gateway.client() as session:
            yield Task(session, events, wire)
    finally:
        await servers.end()


async def test_an_agent_sees_and_calls_only_tools_of_the_contract() -> None:
    async with open_task() as task:
        _, greeting = await task.post({"id": 0, "method": "initialize", "params": {}})
        _, listed = await task.post({"id": 1, "method": "tools/list"})
        found = await task.call("lookup", {"q": "x"})
        refused = await task.call("secret", {})
    assert greeting["result"]["capabilities"] == {"tools": {}}
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["lookup"]
    assert found["result"]["content"][0]["text"] == "found"
    assert refused["error"] == {"code": -32602, "message": "the contract names no tool docs.secret"}
    assert task.calls == [("docs.lookup", '{"q":"x"}', "answered"), ("docs.secret", "{}", "refused")]


async def test_requests_of_a_server_are_refused() -> None:
    async with open_task() as task:
        await task.call("lookup", {})
    answers = [each["error"]["code"] for each in task.wire.told if each.get("id") == "s-1"]
    assert answers == [-32601]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"id": 1.5, "method": "ping"}', 400),
        (b'{"id": {}, "method": "ping"}', 400),
        (b"\xff", 400),
        (b'{"method": "notifications/initialized"}', 202),
        (b'{"method": "notifications/cancelled"}', 202),
        (b'{"id": 1, "result": {}}', 202),
        (b'{"id": 1, "method": 2}', 202),
        (b'{"id": 1, "method": "ping"}', 200),
    ],
)
async def test_odd_messages_never_reach_the_server(body: bytes, status: int) -> None:
    async with open_task() as task:
        before = len(task.wire.told)
        assert (await task.post(body))[0] == status
        assert len(task.wire.told) == before


@pytest.mark.parametrize("method", ["resources/list", "prompts/get", "completion/complete", "logging/setLevel", "tools/none"])
async def test_other_methods_are_not_offered(method: str) -> None:
    async with open_task() as task:
        _, answer = await task.post({"id": 1, "method": method, "params": {}})
    assert answer["error"]["code"] == -32601
    assert method not in {each.get("method") for each in task.wire.told}


@pytest.mark.parametrize(("path", "method", "status"), [("/mcp/other", "POST", 404), ("/mcp/docs", "GET", 405)])
async def test_other_places_and_streams_are_refused(path: str, method: str, status: int) -> None:
    async with open_task() as task:
        assert (await task.post(b"", path, method))[0] == status


@pytest.mark.parametrize("arguments", [None, [], "x", 1])
async def test_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    async with open_task() as task:
        assert (await task.call("lookup", arguments))["error"]["code"] == -32602
    assert [outcome for _, _, outcome in task.calls] == ["refused"]


async def test_a_failed_call_and_a_dead_server_are_recorded() -> None:
    async with open_task() as task:
        assert (await task.call("lookup", {"q": "fail"}))["result"]["isError"] is True
        for _ in range(2):
            answer = await task.call("lookup", {"q": "die"})
            assert answer["error"] == {"code": -32603, "message": "the server docs does not answer: it has ended"}
    assert [outcome for _, _, outcome in task.calls] == ["failed"] * 3


async def test_calls_of_a_task_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_servers, "_MOST_CALLS", 1)
    async with open_task() as task:
        assert "result" in await task.call("lookup", {})
        assert "error" in await task.call("lookup", {})
    assert [outcome for _, _, outcome in task.calls] == ["answered", "refused"]


def silent(_message: Message) -> list[Message]:
    return [{"jsonrpc": "2.0", "method": "notifications/message"}]


def refusing(message: Message) -> list[Message]:
    return [{"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": 1, "message": "no"}}]


@pytest.mark.parametrize(
    ("serve", "tool", "words"),
    [
        (lambda _message: None, "docs.lookup", "it has ended"),
        (silent, "docs.lookup", "it gave no answer in 0.1 s"),
        (refusing, "docs.lookup", "it answers with an error"),
        (serve, "docs.absent", "it has no tool absent"),
    ],
    ids=["ends", "silent", "refuses", "lacks the tool"],
)
async def test_a_server_without_a_session_or_the_tool_is_refused(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, tool: str, words: str
) -> None:
    monkeypatch.setattr(tool_servers, "_START_SECONDS", 0.1)
    with pytest.raises(AgentWireError, match=words):
        async with open_task(serve, tool):
            raise AssertionError("it began a session")


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, {"README.md": b"read me\n", "src/a.py": b"a = 1\n"})


@asynccontextmanager
async def open_program(fixture: HandlerFixture, servers: Path, *tools: str) -> AsyncIterator[Task]:
    """The server of the shell in a real sandbox, on the baseline."""
    entry = ToolServer.model_validate(install_server(servers, *tools))
    events: list[AgentEvent] = []
    models = load_models(policy_directory()).policy
    gateway = ModelGateway(models, models.grant("worker"))
    behind = ToolServers([f"docs.{tool}" for tool in tools], events.append, gateway.limits)
    sandbox = BubblewrapSandbox()
    async with Workspaces(fixture.state / "workspaces").open(await fixture.mirror(), fixture.baseline) as workspace:
        program = usable_agent(entry, (servers,))
        async with open_tool_servers([(program, workspace)], behind, sandbox, None, SandboxLimits(wall_seconds=60)):
            gateway.tools = behind.answer
            async with gateway.client() as session:
                yield Task(session, events, ServedWire(silent))


async def test_a_server_sees_the_baseline_in_a_sandbox_of_its_own(fixture: HandlerFixture, tmp_path: Path) -> None:
    async with open_program(fixture, tmp_path / "servers", "count", "spoil") as task:
        counted = await task.call("count", {})
        assert counted["result"]["content"][0]["text"] == "2 of /workspace"
        assert (await task.call("spoil", {}))["result"]["isError"] is True
        assert (await task.call("count", {}))["result"]["content"][0]["text"] == "2 of /workspace"


async def test_a_server_that_ends_fails_its_calls_only(fixture: HandlerFixture, tmp_path: Path) -> None:
    async with open_program(fixture, tmp_path / "servers", "die", "lookup") as task:
        assert (await task.call("die", {}))["error"]["message"] == "the server docs does not answer: it has ended"
        assert "error" in await task.call("lookup", {})


async def test_a_server_that_cannot_start_is_unavailable(fixture: HandlerFixture, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="the tool server docs: it has no tool absent") as refused:
        async with open_program(fixture, tmp_path / "servers", "absent"):
            raise AssertionError("it began a session")
    assert refused.value.reason == "tool_server_unavailable"
