"""What version 2 of the protocol, a draft, has of its own: who agrees to it, how its turns end, and what is said twice."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.conversation import Conversation
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEvent,
    AgentFileChange,
    AgentMessage,
    AgentPermission,
    AgentUsage,
)
from tests.worker.agents.acp.draft import breaches
from tests.worker.agents.acp.played_agent import END, ORDER, SESSION, SPOKEN, PlayedAgent, converse

ONCE = ("allow_once", "reject_once")


@pytest.fixture(autouse=True)
def _second_version() -> Iterator[None]:
    token = SPOKEN.set(2)
    yield
    SPOKEN.reset(token)


async def test_version_2_is_asked_for_and_nothing_is_offered() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), END)

    held = await converse(play)
    initialize, session, prompt = held.agent.sent
    assert initialize["params"].keys() == {"protocolVersion", "info", "capabilities"}
    assert (initialize["params"]["protocolVersion"], initialize["params"]["capabilities"]) == (2, {})
    assert session["params"] == {"cwd": "/workspace"}
    assert prompt["params"] == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "do it"}]}
    assert held.end.how == "completed"


@pytest.mark.parametrize("answer", [1, 3, 0, 2.0, True, "2", None])
async def test_an_agent_that_answers_with_another_version_is_refused_by_code(answer: object) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": answer, "info": {"name": "x", "version": "1"}})

    with pytest.raises(AgentWireError, match="version") as caught:
        await converse(play)
    assert caught.value.reason == "agent_protocol_refused"


async def test_an_accepted_agent_of_version_1_uses_version_1() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.version = 1
        agent.answer(await agent.stand(), END)

    held = await converse(play, rules=SessionRules(accepts_older=True))
    assert held.end.how == "completed"
    assert "version 1" in held.problems[0]


@pytest.mark.parametrize("answer", [3, 0, True, None])
async def test_accepting_an_older_version_accepts_nothing_else(answer: object) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": answer})

    with pytest.raises(AgentWireError):
        await converse(play, rules=SessionRules(accepts_older=True))


async def test_a_turn_continues_until_the_agent_is_idle() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("state_update", state="idle", stopReason="refusal")
        agent.say({"id": prompt["id"], "result": {"stopReason": "refusal"}})
        agent.update("state_update", state="running")
        agent.update("state_update", state="requires_action")
        agent.update("state_update", state="_dreaming")
        agent.message("working")
        agent.update("state_update", state="idle", stopReason="end_turn")

    held = await converse(play)
    assert (held.end.how, held.end.text) == ("completed", "working")


@pytest.mark.parametrize("reason", [None, "", "refusal", "max_tokens", "_tired", 5])
async def test_an_end_for_another_reason_or_none_is_a_failure(reason: object) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), {"stopReason": reason})

    assert (await converse(play)).end.how == "failed"


async def test_a_repeated_message_id_is_reported_once() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("agent_message_chunk", messageId="1", content={"type": "text", "text": "I beg"})
        agent.update("agent_message", messageId="1", content=[{"type": "text", "text": "I begin"}])
        agent.update("agent_message", messageId="2", content=[{"type": "text", "text": "second"}, {"type": "hologram"}, 5])
        for _ in range(3):
            agent.update("agent_message", messageId="1", content=[{"type": "text", "text": "I begin"}])
            agent.update("agent_message", messageId="2", content=[{"type": "text", "text": "second"}])
            agent.update("agent_message", messageId="2")
        agent.answer(prompt, END)

    told = [event.text for event in (await converse(play)).events if isinstance(event, AgentMessage)]
    assert told == ["I begin", "second"]


async def test_a_call_sent_in_pieces_is_reported_as_one() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("tool_call_update", toolCallId="1", title="Terminal", kind="execute")
        terminal = {"type": "terminal", "terminalId": "t"}
        agent.update("tool_call_content_chunk", toolCallId="1", content=terminal)
        agent.update("terminal_update", terminalId="t", command="make", cwd="/workspace")
        agent.update("terminal_update", terminalId="t", exitStatus={"exitCode": 2})
        changes = [{"operation": "move", "oldPath": "/workspace/a.py", "path": "/workspace/b.py"}, {"operation": 5}, 7]
        agent.update("tool_call_update", toolCallId="2", kind="edit", content=[{"type": "diff", "changes": changes}])
        for _ in range(2):
            agent.update("tool_call_update", toolCallId="2", status="completed", content=None)
        agent.answer(prompt, END)

    assert (await converse(play)).events[1:] == [
        AgentCommand(command="make"),
        AgentCommand(command="make", exit_code=2),
        AgentFileChange(paths=("a.py", "b.py")),
    ]


SUBJECTS: tuple[tuple[dict[str, Any] | None, str], ...] = (
    ({"type": "command", "command": "make", "cwd": "/workspace"}, "command"),
    ({"type": "telepathy", "toolCall": {"toolCallId": "c", "kind": "edit"}}, "other"),
    (None, "other"),
    ({"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": 5, "content": [{"type": "diff", "changes": []}]}}, "other"),
    ({"type": "tool_call", "toolCall": {"toolCallId": "c", "kind": "edit", "content": [{"type": "terminal"}]}}, "command"),
)


@pytest.mark.parametrize(("subject", "asked"), SUBJECTS, ids=str)
async def test_what_is_no_edit_alone_is_refused(subject: dict[str, Any] | None, asked: str) -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        answers.append(await agent.ask(1, {}, *ONCE, subject=subject))
        agent.answer(prompt, END)

    held = await converse(play, replace(ORDER, shell="untrusted"))
    assert answers[0]["result"] == {"outcome": {"outcome": "selected", "optionId": "o1"}}
    assert [event.asked for event in held.events if isinstance(event, AgentPermission)] == [asked]


async def test_a_command_that_is_cleared_before_it_asks_stays_one() -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("tool_call_update", toolCallId="c", kind="execute", rawInput={"command": "make"})
        agent.update("tool_call_update", toolCallId="c", kind=None, rawInput=None)
        answers.append(await agent.ask(1, {"kind": "edit"}, *ONCE))
        agent.answer(prompt, END)

    await converse(play, replace(ORDER, shell="untrusted"))
    assert answers[0]["result"]["outcome"]["optionId"] == "o1"


async def test_the_mode_is_the_one_setting_of_that_category() -> None:
    async def play(agent: PlayedAgent, options: list[Any]) -> None:
        info = {"name": "played", "version": "0"}
        answer = {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}
        agent.answer(await agent.read(), answer)
        agent.answer(await agent.read(), {"sessionId": SESSION, "configOptions": options})
        agent.answer(await agent.read(), {"configOptions": []})
        agent.answer(await agent.read(), END)

    option = {"configId": "m", "name": "Mode", "category": "mode", "type": "select"}
    held = await converse(
        lambda agent: play(agent, [option, {"configId": "x", "type": "boolean"}, 5]), rules=SessionRules(mode="ask")
    )
    assert held.agent.sent[2]["method"] == "session/set_config_option"
    assert held.agent.sent[2]["params"] == {"sessionId": SESSION, "configId": "m", "value": "ask", "type": "id"}
    with pytest.raises(AgentWireError, match="2 settings of its mode"):
        await converse(lambda agent: play(agent, [option, option]), rules=SessionRules(mode="ask"))


async def test_a_session_is_resumed_and_its_past_is_not_repeated() -> None:
    async def play(agent: PlayedAgent) -> None:
        info = {"name": "played", "version": "0"}
        agent.answer(await agent.read(), {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})
        resume = await agent.read()
        assert resume["method"] == "session/resume"
        assert resume["params"]["replayFrom"] == {"type": "start"}
        agent.update("agent_message", messageId="1", content=[{"type": "text", "text": "long ago"}])
        agent.update("state_update", state="idle", stopReason="end_turn")
        agent.answer(resume, {})
        agent.answer(await agent.read(), END)

    held = await converse(play, replace(ORDER, resume=SESSION))
    assert (held.end.how, held.end.text, held.problems) == ("completed", "", [])


async def test_tokens_are_reported_as_the_idle_agent_counts_them() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.update("usage_update", used=5, size=9)
        agent.answer(await agent.stand(), {**END, "usage": {"inputTokens": 5, "outputTokens": 4}})

    assert AgentUsage(input_tokens=5, output_tokens=4) in (await converse(play)).events


async def test_an_agent_that_is_interrupted_stops_by_being_idle() -> None:
    agent, events = PlayedAgent(2), list[AgentEvent]()
    holding = asyncio.ensure_future(Conversation(agent, ORDER, events.append, "played", SessionRules(version=2)).hold())
    prompt = await agent.stand()
    agent.say({"id": prompt["id"], "result": {}})
    agent.update("state_update", state="running")
    agent.message("working")
    holding.cancel()
    assert (await agent.read_until("session/cancel"))["params"] == {"sessionId": SESSION}
    answer = await agent.ask(4, {"kind": "edit"}, *ONCE)
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    agent.update("state_update", state="idle", stopReason="cancelled")
    with pytest.raises(asyncio.CancelledError):
        await holding
    assert agent.breaches == []


def _request(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (_request("session/prompt", sessionId=SESSION, prompt=[]), r"\$.prompt"),
        (_request("session/prompt", prompt=[{"type": "text", "text": "x"}]), "sessionId"),
        (_request("session/new", cwd=5), r"\$.cwd"),
        (_request("session/load", sessionId=SESSION, cwd="/workspace"), "no method session/load"),
        (_request("session/cancel", sessionId=SESSION), "CancelSessionNotification"),
        (_request("initialize", protocolVersion=2, capabilities={}), "info"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected"}}}, r"\$.outcome"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"message": "no"}}, "code"),
        ({"id": 1, "result": {"outcome": {"outcome": "cancelled"}}}, "JSON-RPC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_that_the_draft_does_not_have_would_be_found(message: dict[str, Any], said: str) -> None:
    found = breaches(message)
    assert len(found) == 1
    assert re.search(said, found[0])


@pytest.mark.parametrize(
    "message",
    [
        _request("session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "x"}]),
        {"jsonrpc": "2.0", "id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "o1"}}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "method not found"}},
    ],
    ids=["prompt", "answer", "error"],
)
def test_a_message_of_the_draft_is_none_of_those(message: dict[str, Any]) -> None:
    assert breaches(message) == []
