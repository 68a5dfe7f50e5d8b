"""Codex's MCP server, played: threads by their ids, its own form of a question, and what is no answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.codex.mcp_server import CodexMcpServer
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEnd,
    AgentEvent,
    AgentFileChange,
    AgentMessage,
    AgentOrder,
    AgentPermission,
    AgentProblem,
    AgentStarted,
    AgentUsage,
)
from gatewright.tasks.questions import Leave
from tests.worker.agents.talks import PlayedWire, Says

ORDER = AgentOrder("do it", "/workspace", "a-model", "http://127.0.0.1:8130")
PROGRAM = CodexMcpServer(("/opt/agents/codex",))
GONE = {"isError": True, "content": [{"type": "text", "text": "Session not found for thread_id: old"}]}


class Server:
    """Answers as the server does, and says ``during`` in the first turn before its end."""

    def __init__(self, during: list[Says] | None = None, *, result: Says | None = None, reply: Says | None = None) -> None:
        self._during = during or []
        self._result = result or {"structuredContent": {"threadId": "t-1", "content": "done"}}
        self._reply = reply or {"structuredContent": {"threadId": "t-1", "content": "more"}}
        self._answered = 0

    def __call__(self, told: list[dict[str, Any]]) -> list[Says] | None:
        requests = [each for each in told if "method" in each and "id" in each]
        said: list[Says] = []
        for request in requests[self._answered :]:
            number, called = request["id"], request["params"].get("name")
            if request["method"] == "initialize":
                said.append({"id": number, "result": {"serverInfo": {"version": "0.153.4"}}})
            elif called == "codex":
                said += [*self._during, {"id": number, "result": self._result}]
            else:
                said.append({"id": number, "result": self._reply})
        self._answered = len(requests)
        return said or None


def event(kind: str, **fields: object) -> Says:
    return {"method": "codex/event", "params": {"msg": {"type": kind, **fields}}}


def question(kind: str, **fields: object) -> Says:
    return {"id": 0, "method": "elicitation/create", "params": {"message": "may I?", "codex_elicitation": kind, **fields}}


async def talk(server: Server, order: AgentOrder = ORDER) -> tuple[AgentEnd, list[AgentEvent], PlayedWire]:
    wire, events = PlayedWire(server), list[AgentEvent]()
    end = await PROGRAM.converse(wire, order, events.append)
    return end, events, wire


def answers(wire: PlayedWire) -> list[Any]:
    return [each.get("result", each.get("error")) for each in wire.told if "method" not in each]


def calls(wire: PlayedWire) -> list[tuple[str, dict[str, Any]]]:
    return [(each["params"]["name"], each["params"]["arguments"]) for each in wire.told if each.get("method") == "tools/call"]


async def test_a_turn_is_told_as_events_and_its_thread_has_an_id() -> None:
    said = [
        event("session_configured", session_id="t-1"),
        event("exec_command_begin", command=["make", "test"]),
        event("exec_command_end", command=["make", "test"], exit_code=0),
        event("patch_apply_end", success=True, changes={"/workspace/src/a.py": {}}),
        event("token_count", info={"total_token_usage": {"input_tokens": 3, "output_tokens": 4}}),
        event("agent_message", message="done"),
    ]
    end, events, wire = await talk(Server(said))
    assert end == AgentEnd("completed", "done", "t-1")
    assert events == [
        AgentStarted(agent="codex-mcp-server", version="0.153.4", session="t-1"),
        AgentCommand(command="make test"),
        AgentCommand(command="make test", exit_code=0),
        AgentFileChange(paths=("src/a.py",)),
        AgentUsage(input_tokens=3, output_tokens=4),
        AgentMessage(text="done"),
    ]
    ((tool, arguments),) = calls(wire)
    assert (tool, arguments["prompt"], arguments["cwd"], arguments["approval-policy"]) == (
        "codex",
        "do it",
        "/workspace",
        "never",
    )


async def test_a_second_turn_replies_to_the_same_thread() -> None:
    more = iter(["again", None])

    async def follow_up() -> str | None:
        return next(more)

    end, _, wire = await talk(Server(), replace(ORDER, follow_up=follow_up))
    assert end.how == "completed"
    assert calls(wire)[1] == ("codex-reply", {"threadId": "t-1", "prompt": "again"})


async def test_an_earlier_thread_is_asked_for_and_followed_by_a_fresh_one_where_it_is_gone() -> None:
    end, events, wire = await talk(Server(reply=GONE), replace(ORDER, resume="old"))
    assert end == AgentEnd("completed", "", "t-1")
    assert [(tool, arguments.get("threadId")) for tool, arguments in calls(wire)] == [("codex-reply", "old"), ("codex", None)]
    problems = [each.message for each in events if isinstance(each, AgentProblem)]
    assert problems == ["Session not found for thread_id: old", "the thread cannot be had again, a new one begins"]


@pytest.mark.parametrize(
    ("kind", "shell", "decision"),
    [
        ("patch-approval", "never", "approved"),
        ("exec-approval", "never", "approved"),
        ("exec-approval", "on-request", "approved"),
        ("exec-approval", "deny", "denied"),
    ],
)
async def test_a_question_is_answered_with_the_decision_that_the_server_wants(kind: str, shell: Any, decision: str) -> None:
    async def ask(subject: str) -> Leave:
        assert subject == "make test"
        return Leave(allow=True, by="person", person="ci anna")

    _, events, wire = await talk(Server([question(kind, codex_command=["make", "test"])]), replace(ORDER, shell=shell, ask=ask))
    assert answers(wire) == [{"decision": decision}]
    assert sum(isinstance(each, AgentPermission) for each in events) == 1


@pytest.mark.parametrize("asked", [question("other"), {"id": 0, "method": "sampling/createMessage", "params": {}}])
async def test_what_is_not_known_is_not_had(asked: Says) -> None:
    _, _, wire = await talk(Server([asked]))
    assert answers(wire) == [{"code": -32601, "message": "this is not offered"}]


@pytest.mark.parametrize("thread", [None, 7, "", "x" * 201, "a\ud800b"])
async def test_a_thread_without_a_usable_id_is_none(thread: Any) -> None:
    with pytest.raises(AgentWireError):
        await talk(Server(result={"structuredContent": {"threadId": thread, "content": ""}}))


async def test_an_error_is_a_failure_with_its_words() -> None:
    failed = {"isError": True, "structuredContent": {"threadId": "t-1", "content": "the model is gone"}}
    end, events, _ = await talk(Server([event("session_configured", session_id="t-1")], result=failed))
    assert end.how == "failed"
    assert [each.message for each in events if isinstance(each, AgentProblem)] == ["the model is gone"]


def test_where_each_command_wants_an_approval_there_is_no_shell() -> None:
    for shell, has_none in (("deny", True), ("untrusted", True), ("on-request", False), ("never", False)):
        home = PROGRAM.launch(replace(ORDER, shell=shell)).files[".codex/config.toml"]  # type: ignore[arg-type] # all four
        assert (b"shell_tool = false" in home) is has_none
