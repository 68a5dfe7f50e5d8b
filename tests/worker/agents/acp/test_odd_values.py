"""Every field of every message of an agent with every odd value: the conversation ends as an agent's fault, or goes on.

Whatever an agent sends, no exception other than AgentWireError may leave the conversation: any other one counts as a defect of
the worker, and the task is given to the next worker.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.rules import SessionRules
from tests.odd_values import few_or_all, variants
from tests.worker.agents.acp.played_agent import END, SESSION, Message, Play, PlayedAgent, converse

pytestmark = pytest.mark.usefixtures("each_version")
INFO = {"name": "played", "title": "Played", "version": "0"}
FIRST = {
    "protocolVersion": 1,
    "agentInfo": INFO,
    "agentCapabilities": {
        "loadSession": True,
        "promptCapabilities": {"image": False, "audio": False, "embeddedContext": False},
        "mcpCapabilities": {"http": False, "sse": False},
        "sessionCapabilities": {},
    },
    "authMethods": [{"id": "a", "name": "A", "description": "d"}],
    "_meta": {"x": 1},
}
SECOND = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {"x": {}}}, "_meta": {"x": 1}}
OPENED = {
    "sessionId": SESSION,
    "modes": {"currentModeId": "m", "availableModes": [{"id": "m", "name": "M", "description": "d"}]},
    "models": {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "M"}]},
    "configOptions": [{"configId": "c", "id": "c", "name": "C", "type": "select", "category": "mode", "currentValue": "m"}],
    "_meta": {"x": 1},
}
COUNT = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7, "thoughtTokens": 0, "cachedReadTokens": 0}
ENDED = {"stopReason": "end_turn", "usage": COUNT, "_meta": {"tokens": COUNT}}
TEXT = {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 1}, "_meta": {"tokens": COUNT}}
DIFF = {"type": "diff", "path": "/workspace/a", "oldText": "a", "newText": "b", "changes": [{"path": "a", "oldPath": "b"}]}
SHOWN = [{"type": "content", "content": TEXT}, DIFF, {"type": "terminal", "terminalId": "t"}]
CALL = {
    "toolCallId": "c",
    "title": "Run",
    "kind": "execute",
    "status": "completed",
    "content": SHOWN,
    "locations": [{"path": "/workspace/a", "line": 3}],
    "rawInput": {"command": ["ls", "-l"]},
    "rawOutput": {"exitCode": 1, "metadata": {"exit": 1}},
    "_meta": {"x": 1},
}
UPDATES: dict[str, Message] = {
    "agent_message_chunk": {"content": TEXT, "messageId": "m", "_meta": {"tokens": COUNT}},
    "agent_message": {"content": [TEXT], "messageId": "m"},
    "agent_thought_chunk": {"content": TEXT},
    "user_message_chunk": {"content": TEXT},
    "tool_call": CALL,
    "tool_call_update": CALL,
    "tool_call_content_chunk": {"toolCallId": "c", "content": DIFF},
    "terminal_update": {"terminalId": "t", "command": "ls", "exitStatus": {"exitCode": 0, "signal": None}},
    "state_update": {"state": "running", "stopReason": None, "usage": COUNT, "_meta": {"tokens": COUNT}},
    "plan": {"entries": [{"content": "one", "priority": "high", "status": "pending"}]},
    "available_commands_update": {"availableCommands": [{"name": "x", "description": "d", "input": {"hint": "h"}}]},
    "current_mode_update": {"currentModeId": "m"},
}
OPTIONS = [{"optionId": "a", "name": "Yes", "kind": "allow_once"}, {"optionId": "r", "name": "No", "kind": "reject_once"}]
QUESTIONS: dict[str, Message] = {
    "first": {"sessionId": SESSION, "toolCall": CALL, "options": OPTIONS, "_meta": {"x": 1}},
    "of a call": {"sessionId": SESSION, "title": "t", "subject": {"type": "tool_call", "toolCall": CALL}, "options": OPTIONS},
    "of a command": {
        "sessionId": SESSION,
        "subject": {"type": "command", "command": "ls", "toolCallId": "c"},
        "options": OPTIONS,
    },
}
WHOLE: dict[str, Message] = {
    "answer": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {"stopReason": "end_turn"},
        "error": {"code": 1, "message": "m", "data": {}},
    },
    "request": {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": QUESTIONS["first"]},
    "notice": {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": SESSION, "update": {"sessionUpdate": "plan"}},
    },
}


RULES = SessionRules(usage_at=("tokens",))
IN_MODE = SessionRules(usage_at=("tokens",), mode="m")


async def defects(plays: Iterable[Play], rules: SessionRules = RULES) -> list[str]:
    """What any of these agents brings out of the worker that is no agent's fault."""
    found = []
    for play in plays:
        try:
            await converse(play, rules=rules)
        except AgentWireError:
            continue
        except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
            found.append(repr(error))
    return found


async def begin(agent: PlayedAgent, initialized: object, opened: object = OPENED) -> Message:
    """Answer until the prompt has come."""
    agent.answer(await agent.read_until("initialize"), initialized)
    while (request := await agent.read()).get("method") != "session/prompt":
        agent.answer(request, opened)
    return request


def standing(agent: PlayedAgent) -> Message:
    return FIRST if agent.version == 1 else SECOND


@few_or_all
async def test_no_answer_to_initialize_is_a_defect(values: tuple[object, ...]) -> None:
    def playing(odd: object) -> Play:
        async def play(agent: PlayedAgent) -> None:
            agent.answer(await begin(agent, odd), END)

        return play

    assert await defects(playing(odd) for document in (FIRST, SECOND) for odd in variants(document, values)) == []


@few_or_all
@pytest.mark.parametrize("rules", [RULES, IN_MODE], ids=["no mode", "mode"])
async def test_no_answer_to_a_new_session_is_a_defect(rules: SessionRules, values: tuple[object, ...]) -> None:
    def playing(odd: object) -> Play:
        async def play(agent: PlayedAgent) -> None:
            agent.answer(await begin(agent, standing(agent), odd), END)
            agent.leave()  # its updates are of another session than the odd one

        return play

    assert await defects(map(playing, variants(OPENED, values)), rules) == []


@few_or_all
async def test_no_end_of_a_turn_is_a_defect(values: tuple[object, ...]) -> None:
    def playing(odd: object) -> Play:
        async def play(agent: PlayedAgent) -> None:
            agent.answer(await begin(agent, standing(agent)), odd)
            agent.leave()

        return play

    assert await defects(map(playing, variants(ENDED, values))) == []


@few_or_all
@pytest.mark.parametrize("kind", UPDATES)
async def test_no_update_is_a_defect(kind: str, values: tuple[object, ...]) -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await begin(agent, standing(agent))
        for odd in variants({"sessionUpdate": kind, **UPDATES[kind]}, values):
            agent.say({"method": "session/update", "params": {"sessionId": SESSION, "update": odd}})
        agent.answer(prompt, END)

    assert (await converse(play, rules=RULES)).end.how in {"completed", "failed"}


@few_or_all
@pytest.mark.parametrize("which", QUESTIONS)
async def test_no_question_is_a_defect(which: str, values: tuple[object, ...]) -> None:
    def playing(odd: object) -> Play:
        async def play(agent: PlayedAgent) -> None:
            prompt = await begin(agent, standing(agent))
            agent.say({"id": "q", "method": "session/request_permission", "params": odd})
            await agent.read_answer("q")
            agent.answer(prompt, END)

        return play

    assert await defects(map(playing, variants(QUESTIONS[which], values))) == []


@few_or_all
@pytest.mark.parametrize("which", WHOLE)
async def test_no_message_is_a_defect(which: str, values: tuple[object, ...]) -> None:
    """What is no object never gets here: the wire refuses it."""

    def playing(odd: Message) -> Play:
        async def play(agent: PlayedAgent) -> None:
            prompt = await begin(agent, standing(agent))
            agent.send_as_it_is(odd)
            agent.answer(prompt, END)

        return play

    assert await defects(playing(odd) for odd in variants(WHOLE[which], values) if isinstance(odd, dict)) == []
