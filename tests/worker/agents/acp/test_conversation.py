"""A conversation with an agent that keeps to the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.conversation import Conversation
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEvent,
    AgentFileChange,
    AgentMessage,
    AgentStarted,
    AgentText,
    AgentUsage,
)
from tests.worker.agents.acp.played_agent import END, ORDER, SESSION, PlayedAgent, converse


async def test_neither_files_nor_terminals_are_offered_and_no_servers_are_given() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), END)

    held = await converse(play, rules=SessionRules(meta={"claudeCode": {"options": {"settingSources": []}}}, mode="default"))
    initialize, session, mode, prompt = held.agent.sent
    assert initialize["params"]["protocolVersion"] == 1
    assert initialize["params"]["clientCapabilities"]["fs"] == {"readTextFile": False, "writeTextFile": False}
    assert initialize["params"]["clientCapabilities"]["terminal"] is False
    assert session["params"] == {
        "cwd": "/workspace",
        "mcpServers": [],
        "_meta": {"claudeCode": {"options": {"settingSources": []}}},
    }
    assert (mode["method"], mode["params"]) == ("session/set_mode", {"sessionId": SESSION, "modeId": "default"})
    assert prompt["params"] == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "do it"}]}
    assert held.agent.finished
    assert held.end.session == SESSION


async def test_reports_of_an_agent_become_events() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        for word in ("I ", "begin"):
            agent.message(word)
        agent.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
        agent.update("tool_call", toolCallId="1", title="Terminal", kind="execute", rawInput={"command": "make"})
        agent.update("tool_call_update", toolCallId="1", status="completed", rawOutput={"exitCode": 2})
        diff = [{"type": "diff", "path": "/workspace/src/a.py", "newText": "x"}]
        agent.update("tool_call", toolCallId="2", title="Edit", kind="edit", content=diff, status="pending")
        agent.update("tool_call_update", toolCallId="2", status="completed")
        agent.update("tool_call", toolCallId="3", title="Edit", kind="edit", content=diff, status="failed")
        agent.message("ready")
        agent.answer(prompt, {**END, "_meta": {"quota": {"token_count": {"input_tokens": 5, "output_tokens": 3}}}})

    held = await converse(play, rules=SessionRules(usage_at=("quota", "token_count")))
    assert [event for event in held.events if not isinstance(event, AgentText)] == [
        AgentStarted(agent="played", version="0", session=SESSION),
        AgentMessage(text="I begin"),
        AgentCommand(command="make"),
        AgentCommand(command="make", exit_code=2),
        AgentFileChange(paths=("src/a.py",)),
        AgentMessage(text="ready"),
        AgentUsage(input_tokens=5, output_tokens=3),
    ]
    assert (held.end.how, held.end.text) == ("completed", "ready")


async def test_the_token_count_of_the_protocol_is_reported() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), {**END, "usage": {"totalTokens": 9, "inputTokens": 5, "outputTokens": 4}})

    assert AgentUsage(input_tokens=5, output_tokens=4) in (await converse(play)).events


@pytest.mark.parametrize(
    ("reason", "how"),
    [("end_turn", "completed"), ("cancelled", "interrupted"), ("refusal", "failed"), ("max_tokens", "failed")],
)
async def test_how_a_turn_ended_is_the_agents_word(reason: str, how: str) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), {"stopReason": reason})

    assert (await converse(play)).end.how == how


async def test_an_agent_that_answers_with_an_error_has_failed() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.say({"id": prompt["id"], "error": {"code": -32603, "message": "429 too many requests"}})

    held = await converse(play)
    assert held.end.how == "failed"
    assert "429 too many requests" in held.problems[0]


async def test_another_version_of_the_protocol_is_refused() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": 2})

    with pytest.raises(AgentWireError, match="version 2"):
        await converse(play)


async def test_a_session_continues_and_its_past_is_not_repeated() -> None:
    async def play(agent: PlayedAgent) -> None:
        initialize = await agent.read()
        agent.answer(initialize, {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        load = await agent.read()
        assert (load["method"], load["params"]["sessionId"]) == ("session/load", SESSION)
        agent.message("long ago")
        agent.answer(load, None)
        agent.answer(await agent.read(), END)

    held = await converse(play, replace(ORDER, resume=SESSION))
    assert held.events == [AgentStarted(agent="played", version="", session=SESSION)]


async def test_an_agent_that_resumes_without_replaying_its_past_is_reported() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}})
        agent.answer(await agent.read(), None)
        agent.answer(await agent.read(), END)

    held = await converse(play, replace(ORDER, resume=SESSION))
    assert held.problems == ["the agent resumed the session without replaying its past: it may remember nothing"]


@pytest.mark.parametrize("can_load", [True, False])
async def test_a_session_that_is_gone_begins_anew(*, can_load: bool) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": 1, "agentCapabilities": {"loadSession": can_load}})
        if can_load:
            agent.say({"id": (await agent.read())["id"], "error": {"code": -32002, "message": "no such session"}})
        new = await agent.read()
        assert new["method"] == "session/new"
        agent.answer(new, {"sessionId": "s-2"})
        agent.answer(await agent.read(), END)

    held = await converse(play, replace(ORDER, resume=SESSION))
    assert held.end.session == "s-2"
    assert "new one" in held.problems[0]


async def test_an_interrupted_agent_receives_cancelled_for_its_requests() -> None:
    agent, events = PlayedAgent(), list[AgentEvent]()
    holding = asyncio.ensure_future(Conversation(agent, ORDER, events.append, "played", SessionRules()).hold())
    prompt = await agent.stand()
    holding.cancel()
    assert (await agent.read_until("session/cancel"))["params"] == {"sessionId": SESSION}
    answer = await agent.ask(4, {"kind": "edit"}, "allow_once", "reject_once")
    assert answer["result"] == {"outcome": {"outcome": "cancelled"}}
    agent.answer(prompt, {"stopReason": "cancelled"})
    with pytest.raises(asyncio.CancelledError):
        await holding


async def test_an_agent_that_does_not_stop_has_two_seconds() -> None:
    agent = PlayedAgent()
    holding = asyncio.ensure_future(Conversation(agent, ORDER, lambda _: None, "played", SessionRules()).hold())
    await agent.stand()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(holding, 30)
    assert agent.sent[-1]["method"] == "session/cancel"


async def test_a_command_is_reported_once_known_and_a_write_by_path() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("tool_call", toolCallId="1", title="bash", kind="execute", status="pending", rawInput={})
        agent.update("tool_call_update", toolCallId="1", title="make", rawInput={"command": "make"}, status="in_progress")
        agent.update("tool_call", toolCallId="2", title="write", kind="edit", status="pending", rawInput={})
        agent.update("tool_call_update", toolCallId="2", locations=[{"path": "/workspace/b.py"}])
        output = [{"type": "content", "content": {"type": "text", "text": "written"}}]
        agent.update("tool_call_update", toolCallId="2", status="completed", content=output)
        agent.answer(prompt, END)

    told = (await converse(play)).events[1:]
    assert told == [AgentCommand(command="make"), AgentFileChange(paths=("b.py",))]


async def test_tokens_that_are_counted_with_the_messages_alone_are_added_up() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        for _ in range(3):
            usage = {"usage": {"inputTokens": 5, "outputTokens": 1}}
            agent.update("agent_message_chunk", content={"type": "text", "text": ""}, _meta=usage)
        agent.answer(prompt, END)

    held = await converse(play, rules=SessionRules(usage_at=("usage",)))
    assert AgentUsage(input_tokens=15, output_tokens=3) in held.events


async def test_a_correction_is_a_second_turn_of_the_session() -> None:
    more = iter(["that file is not yours", None])

    async def follow_up() -> str | None:
        return next(more)

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.message("first")
        agent.answer(prompt, END)
        again = await agent.read()
        assert again["params"] == {"sessionId": SESSION, "prompt": [{"type": "text", "text": "that file is not yours"}]}
        agent.message("second")
        agent.answer(again, END)

    held = await converse(play, replace(ORDER, follow_up=follow_up))
    assert held.end.text == "second"
    assert held.agent.finished
