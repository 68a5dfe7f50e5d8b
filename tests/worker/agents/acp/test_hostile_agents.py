"""What a hostile agent sends at the level of the protocol."""

from __future__ import annotations

from typing import Any

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.port import AgentMessage, AgentStarted
from tests.worker.agents.acp.played_agent import END, SESSION, SPOKEN, PlayedAgent, converse

ONCE = ("allow_once", "reject_once")
pytestmark = pytest.mark.usefixtures("each_version")
METHODS = ("fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create", "mcp/connect", "_x/y", "")


@pytest.mark.parametrize("method", METHODS)
async def test_files_terminals_and_all_other_requests_are_not_found(method: str) -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        params = {"sessionId": SESSION, "path": "/etc/passwd", "content": "x", "command": "sh"}
        agent.say({"id": 0, "method": method, "params": params})
        answers.append(await agent.read_answer(0))
        agent.answer(prompt, END)

    held = await converse(play)
    assert answers[0]["error"]["code"] == -32601
    assert held.end.how == "completed"


STRAYS: tuple[dict[str, Any], ...] = (
    {"id": 999, "result": {"stopReason": "end_turn"}},
    {"id": True, "result": {"sessionId": "other"}},
    {"id": 3.0, "result": {"stopReason": "end_turn"}},
    {"id": "3", "result": {"stopReason": "end_turn"}},
    {"id": None, "error": {"code": 1, "message": "x"}},
    {"id": [3], "result": {}},
    {"method": 5, "id": 77, "params": []},
    {"id": {"a": 1}, "method": "session/request_permission"},
    {"method": "session/update", "params": [1]},
    {"method": "session/update", "params": {"sessionId": SESSION, "update": 5}},
    {"method": "session/update", "params": {"sessionId": SESSION, "update": {"sessionUpdate": "tool_call"}}},
    {"method": "session/update", "params": {"sessionId": SESSION, "update": {"sessionUpdate": ["x"]}}},
    {"method": "session/update", "params": {"sessionId": "other", "update": {"sessionUpdate": "agent_message_chunk"}}},
    {"method": "session/cancel"},
    {},
)


@pytest.mark.parametrize("stray", STRAYS, ids=str)
async def test_messages_that_mean_nothing_change_nothing(stray: dict[str, Any]) -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.say(stray)
        agent.message("hello")
        agent.answer(prompt, END)

    held = await converse(play)
    assert [event for event in held.events if isinstance(event, (AgentStarted, AgentMessage))] == [
        AgentStarted(agent="played", version="0", session=SESSION),
        AgentMessage(text="hello"),
    ]
    assert held.end.how == "completed"


async def test_answers_that_were_not_asked_for_do_not_go_on_without_end() -> None:
    async def play(agent: PlayedAgent) -> None:
        await agent.stand()
        for number in range(2_000):
            agent.say({"id": 1_000 + number, "result": {}})

    with pytest.raises(AgentWireError, match="1000 answers"):
        await converse(play)


async def test_an_answer_before_its_question_is_not_taken() -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.say({"id": 2, "result": {"sessionId": "planted"}})
        agent.say({"id": 3, "result": {"stopReason": "end_turn"}})
        await agent.stand()
        agent.leave()

    with pytest.raises(AgentWireError, match="closed its output"):
        await converse(play)


async def test_a_second_question_under_the_same_id_is_refused() -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        answers.append(await agent.ask(1, {"kind": "edit"}, *ONCE))
        answers.append(await agent.ask(1, {"kind": "edit"}, *ONCE))
        agent.answer(prompt, END)

    await converse(play)
    assert answers[0]["result"]["outcome"]["outcome"] == "selected"
    assert answers[1]["error"]["code"] == -32600


async def test_requests_do_not_go_on_without_end() -> None:
    async def play(agent: PlayedAgent) -> None:
        await agent.stand()
        for number in range(3_000):
            agent.say({"id": f"r{number}", "method": "x"})

    with pytest.raises(AgentWireError, match="asked more than 2000 times"):
        await converse(play)


async def test_updates_without_end_are_recorded_up_to_a_bound() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        for number in range(20_000):
            agent.update("tool_call", toolCallId=str(number), title="t", kind="execute", rawInput={"command": str(number)})
        agent.answer(prompt, END)

    held = await converse(play)
    assert len(held.events) == 5_000
    assert "are not recorded" in held.problems[0]


async def test_a_message_of_any_length_is_cut() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.message("a" * 3_000_000)
        for _ in range(1_000):
            agent.message("\ud800" * 1_000)
        agent.answer(prompt, END)

    held = await converse(play)
    assert len(held.end.text) == 16_384
    held.end.text.encode()


async def test_an_agent_without_end_of_its_own_output_has_not_finished() -> None:
    async def play(agent: PlayedAgent) -> None:
        await agent.stand()
        agent.message("all done, tests pass")
        agent.leave()

    with pytest.raises(AgentWireError, match="closed its output"):
        await converse(play)


async def test_what_comes_after_the_end_is_not_read() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.answer(prompt, END)
        agent.answer(prompt, {"stopReason": "refusal"})
        agent.message("late")

    held = await converse(play)
    assert held.end.how == "completed"
    assert held.end.text == ""


@pytest.mark.parametrize("result", [{}, {"stopReason": "well"}, {"stopReason": 5}, {"stop_reason": None}])
async def test_an_end_that_is_none_is_no_end(result: dict[str, Any]) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.stand(), result)

    if SPOKEN.get() == 2:
        # Its reasons are open: one that is not known is an end, and a failure.
        assert (await converse(play)).end.how == "failed"
        return
    with pytest.raises(AgentWireError, match="none of the protocol"):
        await converse(play)


@pytest.mark.parametrize("session", ["", "x" * 10_000, 5, None, "\ud800"])
async def test_a_session_whose_id_is_none_is_refused(session: object) -> None:
    async def play(agent: PlayedAgent) -> None:
        agent.answer(await agent.read(), {"protocolVersion": 1})
        agent.answer(await agent.read(), {"sessionId": session})
        await agent.read()

    with pytest.raises(AgentWireError):
        await converse(play)
