"""Questions of an agent are answered by the kind of the options that it offers, from the contract's permission."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest

from gatewright.services.worker.agents.port import AgentPermission
from gatewright.tasks.questions import Leave
from tests.worker.agents.acp.played_agent import END, ORDER, SESSION, Held, PlayedAgent, converse

EDIT = {"title": "write a.py", "kind": "edit", "content": [{"type": "diff", "path": "/workspace/a.py", "newText": "x"}]}
COMMAND = {"title": "run it", "kind": "execute", "rawInput": {"command": "make"}}
ONCE = ("allow_always", "allow_once", "reject_once", "reject_always")
CANCELLED = {"outcome": {"outcome": "cancelled"}}
pytestmark = pytest.mark.usefixtures("each_version")
Shell = Literal["deny", "untrusted", "on-request", "never"]
#: Of a contract that wants a person for each command, where none can be asked.
REFUSING = replace(ORDER, shell="untrusted")


def selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


async def ask(call: dict[str, Any], *kinds: str, **changes: Any) -> tuple[object, Held]:
    """The result that a question got, and the conversation that it was asked in."""
    answers: list[object] = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        answers.append((await agent.ask(0, call, *kinds))["result"])
        agent.message("done")
        agent.answer(prompt, END)

    held = await converse(play, replace(REFUSING, **changes))
    return answers[0] if answers else held.agent.sent[-2]["result"], held


async def test_commands_are_allowed_in_the_sandbox_by_default() -> None:
    result, held = await ask(COMMAND, *ONCE, shell="never")
    assert result == selected("o1")
    assert held.answers == ["allow"]
    assert held.end.how == "completed"


@pytest.mark.parametrize("shell", ["deny", "untrusted", "on-request"])
async def test_a_command_is_refused_once_where_no_person_can_approve_it(shell: Shell) -> None:
    result, held = await ask(COMMAND, *ONCE, shell=shell)
    assert result == selected("o2")
    assert [event for event in held.events if isinstance(event, AgentPermission)] == [
        AgentPermission(asked="command", subject="make", answer="reject", offered=ONCE)
    ]
    assert ("policy_violation" in "".join(held.problems)) is (shell == "deny")


@pytest.mark.parametrize(("shell", "option"), [("on-request", "o1"), ("untrusted", "o2"), ("never", "o1"), ("deny", "o2")])
async def test_the_operators_standing_approval_is_for_contracts_that_want_an_approval(shell: Shell, option: str) -> None:
    result, _ = await ask(COMMAND, *ONCE, standing_approval=True, shell=shell)
    assert result == selected(option)


async def test_an_edit_is_allowed_once_and_never_always() -> None:
    result, held = await ask(EDIT, *ONCE)
    assert result == selected("o1")
    assert held.answers == ["allow"]
    assert held.end.how == "completed"


@pytest.mark.parametrize("call", [EDIT, COMMAND, {"kind": "move", "title": "x"}, {"kind": "delete", "title": "x"}])
async def test_a_task_that_only_reads_is_allowed_nothing(call: dict[str, Any]) -> None:
    result, _ = await ask(call, *ONCE, standing_approval=True, read_only=True, shell="on-request")
    assert result == selected("o2")


@pytest.mark.parametrize("kind", ["fetch", "switch_mode", "other", "sudo", None, 5])
async def test_network_modes_and_what_is_not_known_are_refused(kind: object) -> None:
    assert (await ask({"kind": kind, "title": "x"}, *ONCE))[0] == selected("o2")


@pytest.mark.parametrize("kind", ["read", "edit", "think"])
async def test_a_command_that_claims_to_be_something_else_is_a_command(kind: str) -> None:
    result, held = await ask({"kind": kind, "title": "just looking", "rawInput": {"command": "rm -rf ."}}, *ONCE)
    assert result == selected("o2")
    assert [(event.asked, event.subject) for event in held.events if isinstance(event, AgentPermission)] == [
        ("command", "rm -rf .")
    ]


async def test_a_call_that_was_a_command_stays_one_when_it_asks() -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        agent.update("tool_call", toolCallId="c", title="make", kind="execute", rawInput={"command": "make"})
        answers.append(await agent.ask(7, {"toolCallId": "c", "kind": "edit", "title": "write a.py"}, *ONCE))
        agent.answer(prompt, END)

    await converse(play, REFUSING)
    assert answers[0]["result"] == selected("o2")


async def test_another_call_in_the_meta_fields_is_not_what_is_judged() -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        meta = {"toolCall": {"toolCallId": "c", **EDIT}, "tool_call": {"toolCallId": "c", **EDIT}, "sessionId": SESSION}
        answers.append(await agent.ask(1, {**COMMAND, "_meta": meta}, *ONCE, _meta=meta))
        agent.answer(prompt, END)

    await converse(play, REFUSING)
    assert answers[0]["result"] == selected("o2")


async def test_an_agent_that_offers_only_allow_is_cancelled() -> None:
    result, held = await ask(COMMAND, "allow_once", "allow_always")
    assert result == CANCELLED
    assert held.agent.sent[-1]["method"] == "session/cancel"
    assert held.end.how == "declined"
    assert held.answers == ["cancel"]


async def test_refusing_for_always_is_not_chosen_either() -> None:
    assert (await ask(COMMAND, "allow_once", "reject_always"))[0] == CANCELLED


@pytest.mark.parametrize("kinds", [(), ("yes",), ("Reject_once", "reject"), ("allow_once",) * 40 + ("reject_once",)])
async def test_options_of_unknown_kinds_or_without_end_cannot_be_chosen(kinds: tuple[str, ...]) -> None:
    result, held = await ask(EDIT, *kinds)
    assert result == CANCELLED
    assert held.end.how == "declined"


async def test_of_two_ways_to_allow_once_none_is_taken() -> None:
    assert (await ask(EDIT, "allow_once", "allow_once", "reject_once"))[0] == selected("o2")


async def test_of_two_ways_to_refuse_once_one_is_taken() -> None:
    assert (await ask(COMMAND, "reject_once", "allow_once", "reject_once"))[0] == selected("o0")


async def test_an_option_whose_id_is_two_options_cannot_be_chosen() -> None:
    answers = []
    options = [
        {"optionId": "a", "name": "no", "kind": "reject_once"},
        {"optionId": "a", "name": "yes", "kind": "allow_always"},
        {"optionId": "b", "name": "no", "kind": "reject_once"},
    ]

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        answers.append(await agent.ask(1, COMMAND, options=options))
        agent.answer(prompt, END)

    await converse(play)
    assert answers[0]["result"] == selected("b")


async def test_a_question_of_another_session_is_refused() -> None:
    answers = []

    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        answers.append(await agent.ask(1, EDIT, *ONCE, sessionId="hidden"))
        agent.answer(prompt, END)

    held = await converse(play)
    assert answers[0]["result"] == selected("o2")
    assert held.answers == ["reject"]


async def test_a_turn_that_ends_with_a_refusal_was_declined() -> None:
    async def play(agent: PlayedAgent) -> None:
        prompt = await agent.stand()
        await agent.ask("one", COMMAND, *ONCE)
        agent.answer(prompt, END)

    assert (await converse(play, REFUSING)).end.how == "declined"


async def test_an_agent_that_asks_without_end_is_stopped() -> None:
    async def play(agent: PlayedAgent) -> None:
        await agent.stand()
        for number in range(1000):
            await agent.ask(number, COMMAND, *ONCE)

    held = await converse(play, REFUSING)
    assert held.end.how == "declined"
    assert held.answers == ["reject"] * 500 + ["cancel"]


@pytest.mark.parametrize(
    ("call", "shell", "put"),
    [
        (COMMAND, "on-request", ["make"]),
        (COMMAND, "untrusted", ["make"]),
        (COMMAND, "deny", []),
        ({**COMMAND, "kind": "edit"}, "on-request", ["make"]),
        ({"title": "look it up", "kind": "fetch"}, "on-request", []),
        ({"title": "another mode", "kind": "switch_mode"}, "on-request", []),
    ],
)
async def test_a_person_is_asked_for_commands_that_want_an_approval_alone(
    call: dict[str, Any], shell: Shell, put: list[str]
) -> None:
    asked: list[str] = []

    async def person(subject: str) -> Leave:
        asked.append(subject)
        return Leave(allow=True, by="person", person="ci anna")

    result, held = await ask(call, *ONCE, shell=shell, ask=person)
    assert asked == put
    assert result == selected("o1" if put else "o2")
    by = [(event.by, event.person) for event in held.events if isinstance(event, AgentPermission)]
    assert by == [("person", "ci anna") if put else ("contract", "")]


@pytest.mark.parametrize("kinds", [("allow_always", "reject_once"), ("allow_once", "allow_once", "reject_once")])
async def test_no_person_is_asked_without_a_single_use_approval(kinds: tuple[str, ...]) -> None:
    asked: list[str] = []

    async def person(subject: str) -> Leave:
        asked.append(subject)
        return Leave(allow=True, by="person")

    _, held = await ask(COMMAND, *kinds, shell="on-request", ask=person)
    assert asked == []
    assert held.answers == ["reject"]
