"""Codex's app server, played badly: what it says is a claim, what it asks is answered by what it asks for."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.installation import InstalledAgent
from gatewright.agents.policy import load_agents
from gatewright.errors import AgentWireError
from gatewright.resources import policy_directory
from gatewright.services.worker.agents.codex.app_server import CodexAppServer
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEnd,
    AgentEvent,
    AgentFileChange,
    AgentOrder,
    AgentPermission,
    AgentProblem,
    AskPerson,
)
from gatewright.services.worker.agents.protocols import launch_of, protocol_of
from gatewright.tasks.questions import AnsweredBy, Leave
from tests.worker.agents.talks import PlayedWire, Says

ORDER = AgentOrder("do it", "/workspace", "a-model", "http://127.0.0.1:8130")
PROGRAM = CodexAppServer(("/opt/agents/codex",))


class Codex:
    """Answers requests as the app server does, and says ``during`` in each turn before ``end``."""

    def __init__(self, during: list[Says] | None = None, *, status: str = "completed", thread: Any = "thread-1") -> None:
        self._during = during or []
        self._status = status
        self._thread = thread
        self._answered = 0

    def __call__(self, told: list[dict[str, Any]]) -> list[Says] | None:
        requests = [each for each in told if "method" in each and "id" in each]
        said: list[Says] = []
        for request in requests[self._answered :]:
            said += self._answer(request)
        self._answered = len(requests)
        return said or None

    def _answer(self, request: dict[str, Any]) -> list[Says]:
        number = request["id"]
        match request["method"]:
            case "initialize":
                return [{"id": number, "result": {"userAgent": "gatewright/0.169.0 (x)"}}]
            case "thread/start" | "thread/resume":
                return [{"id": number, "result": {"thread": {"id": self._thread}}}]
            case "turn/start":
                turn = {"id": "turn-1", "status": "inProgress"}
                over = {
                    "method": "turn/completed",
                    "params": {"threadId": "thread-1", "turn": {**turn, "status": self._status}},
                }
                return [{"id": number, "result": {"turn": turn}}, *self._during, over]
            case _:
                return [{"id": number, "error": {"code": 1, "message": "no"}}]


async def talk(codex: Codex, order: AgentOrder = ORDER) -> tuple[AgentEnd, list[AgentEvent], PlayedWire]:
    wire, events = PlayedWire(codex), list[AgentEvent]()
    end = await PROGRAM.converse(wire, order, events.append)
    return end, events, wire


def question(method: str, number: object = 0, **params: object) -> Says:
    return {"id": number, "method": method, "params": {"threadId": "thread-1", "itemId": "i", **params}}


def answers(wire: PlayedWire) -> list[Any]:
    return [each.get("result", each.get("error")) for each in wire.told if "method" not in each]


@pytest.mark.parametrize("shell", ["deny", "untrusted", "on-request"])
async def test_a_command_that_is_asked_for_is_declined(shell: Any) -> None:
    asked = question("item/commandExecution/requestApproval", command="touch x")
    order = AgentOrder("do it", "/workspace", "m", "http://x", shell)
    end, events, wire = await talk(Codex([asked]), order)
    assert answers(wire) == [{"decision": "decline"}]
    assert AgentPermission(asked="command", subject="touch x", answer="reject", offered=("accept", "decline")) in events
    assert end.how == "declined"
    assert any(isinstance(event, AgentProblem) and "policy_violation" in event.message for event in events) == (shell == "deny")


async def test_a_standing_approval_is_for_commands_on_request_only() -> None:
    asked = question("item/commandExecution/requestApproval", command="touch x")
    for shell, decision in (("on-request", "accept"), ("untrusted", "decline"), ("deny", "decline")):
        order = AgentOrder("do it", "/workspace", "m", "http://x", shell, standing_approval=True)  # type: ignore[arg-type]
        _, _, wire = await talk(Codex([asked]), order)
        assert answers(wire) == [{"decision": decision}]


async def test_an_edit_is_allowed_once_and_never_in_an_audit() -> None:
    asked = question("item/fileChange/requestApproval")
    _, _, wire = await talk(Codex([asked]))
    assert answers(wire) == [{"decision": "accept"}]
    _, _, wire = await talk(Codex([asked]), AgentOrder("look", "/workspace", "m", "http://x", read_only=True))
    assert answers(wire) == [{"decision": "decline"}]


async def test_a_command_that_wants_the_network_is_declined_as_that() -> None:
    asked = question("item/commandExecution/requestApproval", command="curl x", networkApprovalContext={"host": "x"})
    order = AgentOrder("do it", "/workspace", "m", "http://x", "on-request", standing_approval=True)
    _, events, wire = await talk(Codex([asked]), order)
    assert answers(wire) == [{"decision": "decline"}]
    assert any(isinstance(event, AgentPermission) and event.asked == "network" for event in events)


@pytest.mark.parametrize(
    "method",
    ["item/permissions/requestApproval", "account/chatgptAuthTokens/refresh", "mcpServer/elicitation/request", "new/thing"],
)
async def test_what_is_not_known_is_not_had(method: str) -> None:
    _, events, wire = await talk(Codex([question(method)]))
    assert answers(wire) == [{"code": -32601, "message": "this is not offered"}]
    assert any(isinstance(event, AgentPermission) and event.answer == "reject" for event in events)


async def test_endless_questions_end_the_talk() -> None:
    asked = [question("item/commandExecution/requestApproval", number) for number in range(600)]
    with pytest.raises(AgentWireError, match="more than 500 questions"):
        await talk(Codex(asked))


@pytest.mark.parametrize("thread", [None, "", 5, {}, "x" * 500, "\ud800"])
async def test_a_thread_without_a_usable_id_is_none(thread: Any) -> None:
    with pytest.raises(AgentWireError, match="without an id"):
        await talk(Codex(thread=thread))


async def test_actions_of_another_thread_are_not_reported() -> None:
    item = {"type": "fileChange", "status": "completed", "changes": [{"path": "/workspace/a"}]}
    theirs = {"method": "item/completed", "params": {"threadId": "hidden", "item": item}}
    ours = {
        "method": "item/completed",
        "params": {"threadId": "thread-1", "item": {**item, "changes": [{"path": "/workspace/b"}]}},
    }
    _, events, _ = await talk(Codex([theirs, ours]))
    assert [event.paths for event in events if isinstance(event, AgentFileChange)] == [("b",)]


async def test_malformed_items_are_no_events_and_no_harm() -> None:
    items: list[Any] = [None, [], {"type": "fileChange", "status": "completed", "changes": 5}, {"type": 7}]
    items += [{"type": "agentMessage", "text": 3}]
    said: list[Says] = [{"method": "item/completed", "params": {"threadId": "thread-1", "item": item}} for item in items]
    said += [{"method": 5, "params": {}}, {"method": "turn/completed", "params": 1}, {"id": None}, {}]
    said += [
        {
            "method": "item/completed",
            "params": {
                "threadId": "thread-1",
                "item": {"type": "commandExecution", "status": "completed", "command": None, "exitCode": "x"},
            },
        }
    ]
    end, events, _ = await talk(Codex(said))
    assert end.how == "completed"
    assert [event for event in events if isinstance(event, AgentCommand)] == [AgentCommand(command="", exit_code=None)]


@pytest.mark.parametrize(("status", "how"), [("failed", "failed"), ("interrupted", "interrupted"), ("victory", "failed")])
async def test_only_a_completed_turn_is_completed(status: str, how: str) -> None:
    end, _, _ = await talk(Codex(status=status))
    assert end.how == how


async def test_an_end_in_the_middle_of_a_turn_is_a_fault() -> None:
    with pytest.raises(AgentWireError, match="ended before"):
        await talk(Codex([], status="completed", thread="thread-2"))


async def test_a_follow_up_is_a_second_turn_of_the_thread() -> None:
    more = ["put it back"]

    async def follow_up() -> str | None:
        return more.pop() if more else None

    order = AgentOrder("do it", "/workspace", "m", "http://x", follow_up=follow_up)
    _, _, wire = await talk(Codex(), order)
    turns = [each["params"] for each in wire.told if each.get("method") == "turn/start"]
    assert [(turn["threadId"], turn["input"][0]["text"]) for turn in turns] == [
        ("thread-1", "do it"),
        ("thread-1", "put it back"),
    ]


def test_its_home_has_one_provider_and_no_key() -> None:
    launch = PROGRAM.launch(AgentOrder("do it", "/workspace", 'm"\n[evil]', "http://127.0.0.1:8130", "deny"))
    config = launch.files[".codex/config.toml"].decode()
    assert "\n[evil]" not in config
    assert "shell_tool = false" in config
    assert launch.argv == ("/opt/agents/codex", "app-server")
    assert set(launch.variables) == {"CODEX_HOME", "GATEWRIGHT_MODEL_KEY"}


@pytest.mark.parametrize(
    ("model", "recorded", "ours"),
    [("gpt-5.5", False, False), ("gpt-5", False, True), ("local/qwen3", False, True), ("gpt-5.5", True, True)],
)
@pytest.mark.parametrize("name", ["codex", "codex-acp"])
def test_our_list_of_models_is_named_where_codex_lacks_the_model(
    tmp_path: Path, name: str, model: str, *, recorded: bool, ours: bool
) -> None:
    program = tmp_path / "co dex"
    listed = '{"models":[{"slug":"gpt-5.5","display_name":"x"}]}'
    program.write_text(f"#!/bin/sh\ncase $* in *debug*) cat; echo '{listed}' ;; *) cat \"$CODEX_HOME/config.toml\" ;; esac\n")
    program.chmod(0o755)
    entry = next(each for each in load_agents(policy_directory()).agents if each.name == name)
    agent = InstalledAgent(entry=entry, argv=(str(program),), version="1", folder=tmp_path)
    order = AgentOrder("do it", "/workspace", model, "http://127.0.0.1:8130", recorded_catalogue=recorded)
    launch = launch_of(agent, protocol_of(agent), order)
    (tmp_path / "config.toml").write_bytes(launch.files[".codex/config.toml"])
    environment = {"CODEX_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    read = subprocess.run(launch.argv, env=environment, input=b"{}\n", capture_output=True, check=True).stdout.decode()
    assert tomllib.loads(read).get("model_catalog_json") == (f"{tmp_path}/models.json" if ours else None)
    assert json.loads(launch.files[".codex/models.json"])["models"][0]["slug"] == model


def asked_of(leave: Leave) -> tuple[AskPerson, list[str]]:
    """A person who answers so, and what they were asked."""
    put: list[str] = []

    async def ask(subject: str) -> Leave:
        put.append(subject)
        return leave

    return ask, put


@pytest.mark.parametrize(("shell", "asked"), [("on-request", True), ("untrusted", True), ("deny", False)])
async def test_a_person_is_asked_only_where_the_contract_requires_it(shell: Any, *, asked: bool) -> None:
    ask, put = asked_of(Leave(allow=True, by="person", person="ci anna"))
    codex = Codex([question("item/commandExecution/requestApproval", command="make test")])
    _, events, wire = await talk(codex, replace(ORDER, shell=shell, ask=ask))
    assert answers(wire) == [{"decision": "accept" if asked else "decline"}]
    assert put == (["make test"] if asked else [])
    (permission,) = [event for event in events if isinstance(event, AgentPermission)]
    assert (permission.by, permission.person) == (("person", "ci anna") if asked else ("contract", ""))


@pytest.mark.parametrize("by", ["silence", "person", "too_many"])
async def test_silence_and_a_no_decline(by: AnsweredBy) -> None:
    leave = Leave(allow=False, by=by)
    ask, _ = asked_of(leave)
    codex = Codex([question("item/commandExecution/requestApproval", command="make test")])
    _, events, wire = await talk(codex, replace(ORDER, shell="on-request", ask=ask))
    assert answers(wire) == [{"decision": "decline"}]
    assert [event.by for event in events if isinstance(event, AgentPermission)] == [leave.by]


@pytest.mark.parametrize(
    "asked",
    [
        question("item/commandExecution/requestApproval", command="curl", networkApprovalContext={"host": "x"}),
        question("item/permissions/requestApproval"),
        question("item/commandExecution/requestApproval", command="make", threadId="hidden-thread"),
    ],
)
async def test_no_person_is_asked_for_what_no_contract_leaves_open(asked: Says) -> None:
    ask, put = asked_of(Leave(allow=True, by="person"))
    _, events, _ = await talk(Codex([asked]), replace(ORDER, shell="on-request", ask=ask))
    assert put == []
    assert [event.answer for event in events if isinstance(event, AgentPermission)] == ["reject"]


async def test_a_question_before_or_after_the_turn_is_declined_without_a_person() -> None:
    ask, put = asked_of(Leave(allow=True, by="person"))
    late = question("item/commandExecution/requestApproval", command="make", number=7)

    class Early(Codex):
        def _answer(self, request: dict[str, Any]) -> list[Says]:
            said = super()._answer(request)
            return [late, *said] if request["method"] == "thread/start" else said

    _, events, _ = await talk(Early(), replace(ORDER, shell="on-request", ask=ask))
    assert put == []
    assert [event.answer for event in events if isinstance(event, AgentPermission)] == ["reject"]


async def test_a_thread_that_cannot_be_resumed_is_replaced_and_reported() -> None:
    class Forgetful(Codex):
        def _answer(self, request: dict[str, Any]) -> list[Says]:
            if request["method"] == "thread/resume":
                return [{"id": request["id"], "error": {"code": -32600, "message": "no rollout found"}}]
            return super()._answer(request)

    end, events, wire = await talk(Forgetful(), replace(ORDER, resume="gone"))
    assert end.how == "completed"
    assert [each["method"] for each in wire.told if "method" in each][2:4] == ["thread/resume", "thread/start"]
    assert any(isinstance(event, AgentProblem) and "no rollout found" in event.message for event in events)
