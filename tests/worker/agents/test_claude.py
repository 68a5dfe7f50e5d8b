"""Claude's stream of JSON, played badly: the result's error counts, and tools are allowed by what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.claude.stream import ClaudeStream
from gatewright.services.worker.agents.port import (
    AgentEnd,
    AgentEvent,
    AgentFileChange,
    AgentOrder,
    AgentPermission,
    AgentStarted,
)
from gatewright.tasks.questions import Leave
from tests.worker.agents.talks import PlayedWire, Says

ORDER = AgentOrder("do it", "/workspace", "a-model", "http://127.0.0.1:8130")
PROGRAM = ClaudeStream(("/opt/agents/claude",))
INIT: Says = {"type": "system", "subtype": "init", "session_id": "s-1", "claude_code_version": "2.1.197"}


class Claude:
    """Says ``during`` and ``result`` for each message of the user."""

    def __init__(self, during: list[Says] | None = None, result: Says | None = None) -> None:
        self._during = during or []
        self._result = result if result is not None else {"type": "result", "is_error": False, "result": "done"}
        self._heard = 0

    def __call__(self, told: list[dict[str, Any]]) -> list[Says] | None:
        messages = [each for each in told if each["type"] == "user"]
        if len(messages) == self._heard:
            return None
        self._heard = len(messages)
        return [INIT, *self._during, *([self._result] if self._result else [])]


async def talk(claude: Claude, order: AgentOrder = ORDER) -> tuple[AgentEnd, list[AgentEvent], PlayedWire]:
    wire, events = PlayedWire(claude), list[AgentEvent]()
    end = await PROGRAM.converse(wire, order, events.append)
    return end, events, wire


def question(tool: object, **given: object) -> Says:
    return {
        "type": "control_request",
        "request_id": "r1",
        "request": {"subtype": "can_use_tool", "tool_name": tool, "input": given},
    }


def answers(wire: PlayedWire) -> list[Any]:
    return [each["response"] for each in wire.told if each["type"] == "control_response"]


@pytest.mark.parametrize(
    ("tool", "shell", "behaviour"),
    [
        ("Edit", "never", "allow"),
        ("Read", "deny", "allow"),
        ("Bash", "never", "allow"),
        ("Bash", "deny", "deny"),
        ("Bash", "on-request", "deny"),
        ("Bash", "untrusted", "deny"),
        ("WebFetch", "on-request", "deny"),
        ("mcp__evil__run", "on-request", "deny"),
        ("NewTool", "never", "deny"),
        (7, "never", "deny"),
    ],
)
async def test_a_tool_is_allowed_by_what_it_does(tool: object, shell: Any, behaviour: str) -> None:
    order = AgentOrder("do it", "/workspace", "m", "http://x", shell)
    _, events, wire = await talk(Claude([question(tool, file_path="/workspace/a", command="touch x")]), order)
    assert [answer["response"]["behavior"] for answer in answers(wire)] == [behaviour]
    assert sum(isinstance(event, AgentPermission) for event in events) == 1


async def test_the_input_that_is_allowed_is_the_one_that_was_asked_about() -> None:
    _, _, wire = await talk(Claude([question("Edit", file_path="/workspace/a", old_string="x")]))
    assert answers(wire)[0]["response"]["updatedInput"] == {"file_path": "/workspace/a", "old_string": "x"}


async def test_requests_that_are_not_offered_are_refused() -> None:
    hook: Says = {"type": "control_request", "request_id": "r2", "request": {"subtype": "hook_callback"}}
    _, _, wire = await talk(Claude([hook, {**hook, "request": None}]))
    assert [answer["subtype"] for answer in answers(wire)] == ["error", "error"]


@pytest.mark.parametrize(
    "result",
    [
        {"type": "result", "subtype": "success", "is_error": True, "result": "no"},
        {"type": "result", "subtype": "success", "result": "all done"},
        {"type": "result", "subtype": "success", "is_error": "false"},
    ],
)
async def test_a_result_counts_by_its_error_and_not_by_its_name(result: Says) -> None:
    end, _, _ = await talk(Claude(result=result))
    assert end.how == "failed"


async def test_an_end_without_a_result_is_a_fault() -> None:
    with pytest.raises(AgentWireError, match="ended before"):
        await talk(Claude(result={}))


async def test_only_files_of_successful_tools_are_reported() -> None:
    def use(number: str, file: str) -> Says:
        part = {"type": "tool_use", "id": number, "name": "Write", "input": {"file_path": file}}
        return {"type": "assistant", "message": {"content": [part]}}

    def over(number: str, *, failed: bool) -> Says:
        part = {"type": "tool_result", "tool_use_id": number, "is_error": failed}
        return {"type": "user", "message": {"content": [part]}}

    said = [use("1", "/workspace/a"), over("1", failed=False), use("2", "/workspace/b"), over("2", failed=True)]
    _, events, _ = await talk(Claude(said))
    assert [event.paths for event in events if isinstance(event, AgentFileChange)] == [("a",)]


async def test_malformed_messages_are_no_events_and_no_harm() -> None:
    said: list[Says] = [
        {"type": "assistant", "message": None},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [None, 5, {"type": "tool_use", "id": 3}, {"type": "text", "text": {}}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": ["x"]}]}},
        {"type": None},
        {},
    ]
    end, events, wire = await talk(Claude(said))
    assert end.how == "completed"
    assert [type(event) for event in events] == [AgentStarted]
    assert wire.finished


async def test_endless_questions_end_the_talk() -> None:
    with pytest.raises(AgentWireError, match="more than 500 questions"):
        await talk(Claude([question("Bash", command="x")] * 600))


def test_a_denied_shell_is_no_tool_and_settings_stay_unread() -> None:
    denied = PROGRAM.launch(AgentOrder("do it", "/workspace", "m", "http://x", "deny")).argv
    asks_nothing = PROGRAM.launch(AgentOrder("do it", "/workspace", "m", "http://x", "never")).argv
    audit = PROGRAM.launch(AgentOrder("look", "/workspace", "m", "http://x", "never", read_only=True)).argv
    assert "Bash" not in denied[denied.index("--tools") + 1]
    assert asks_nothing[asks_nothing.index("--allowedTools") + 1] == "Bash"
    assert set(audit[audit.index("--tools") + 1].split(",")) == {"Read", "Glob", "Grep"}
    for argv in (denied, asks_nothing, audit):
        assert argv[argv.index("--setting-sources") + 1] == ""
        assert "--strict-mcp-config" in argv


@pytest.mark.parametrize(("tool", "allowed"), [("Bash", True), ("WebFetch", False), ("mcp__x__y", False)])
async def test_a_person_is_asked_for_commands_alone(tool: str, *, allowed: bool) -> None:
    asked: list[str] = []

    async def person(subject: str) -> Leave:
        asked.append(subject)
        return Leave(allow=True, by="person", person="ci anna")

    _, events, wire = await talk(Claude([question(tool, command="make")]), replace(ORDER, shell="on-request", ask=person))
    assert [answer["response"]["behavior"] for answer in answers(wire)] == ["allow" if allowed else "deny"]
    assert asked == (["make"] if allowed else [])
    by = [event.by for event in events if isinstance(event, AgentPermission)]
    assert by == ["person" if allowed else "contract"]
