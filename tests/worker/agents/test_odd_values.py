"""Every field of every message of Codex and Claude with every odd value: an agent's fault at most, never a worker's defect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.claude.stream import ClaudeStream
from gatewright.services.worker.agents.codex.app_server import CodexAppServer
from gatewright.services.worker.agents.port import AgentOrder, AgentProtocol
from tests.odd_values import ODD, variants
from tests.worker.agents.talks import Play, PlayedWire, Says

Message = dict[str, Any]

ORDER = AgentOrder("do it", "/workspace", "a-model", "http://127.0.0.1:8130", "on-request")
COUNT = {"input_tokens": 3, "output_tokens": 4, "inputTokens": 3, "outputTokens": 4}
COMMAND = {"type": "commandExecution", "id": "i", "command": "ls", "status": "completed", "exitCode": 0}
CHANGE = {
    "type": "fileChange",
    "id": "i",
    "status": "completed",
    "changes": [{"path": "a", "kind": {"type": "add"}, "diff": "x"}],
}


def notice(method: str, **params: Any) -> Message:
    return {"method": method, "params": {"threadId": "t-1", **params}}


def asked(method: str, **params: Any) -> Message:
    return {"id": "q", "method": method, "params": {"threadId": "t-1", "itemId": "i", "reason": "r", **params}}


APP_SERVER: tuple[Message, ...] = (
    notice("item/started", item=COMMAND),
    notice("item/completed", item=COMMAND),
    notice("item/completed", item=CHANGE),
    notice("item/completed", item={"type": "agentMessage", "id": "i", "text": "hello"}),
    notice("thread/tokenUsage/updated", tokenUsage={"total": COUNT, "last": COUNT}),
    notice("error", error={"message": "m", "codexErrorInfo": "x"}, willRetry=True),
    notice("turn/completed", turn={"id": "turn-1", "status": "completed", "error": {"message": "m"}, "items": []}),
    asked("item/commandExecution/requestApproval", command=["ls", "-l"], networkApprovalContext=None),
    asked("item/fileChange/requestApproval", grantRoot=None),
    asked("execCommandApproval", command=["ls"], callId="c"),
    asked("applyPatchApproval", fileChanges={"a": {"add": {"content": "x"}}}),
    asked("item/permissions/requestApproval"),
    {"id": 1, "result": {"userAgent": "codex/0.171.0 (x)"}},
    {"id": 2, "result": {"thread": {"id": "t-1"}}},
    {"id": 3, "result": {"turn": {"id": "turn-1", "status": "inProgress"}}},
    {"id": 3, "error": {"code": 1, "message": "m"}},
)


def content(speaker: str, *parts: Message) -> Message:
    return {"type": speaker, "message": {"role": speaker, "content": list(parts)}, "session_id": "s-1"}


def use(tool: str, **given: Any) -> Message:
    return {"type": "tool_use", "id": "u", "name": tool, "input": given}


CLAUDE: tuple[Message, ...] = (
    {"type": "system", "subtype": "init", "session_id": "s-1", "claude_code_version": "2.1.197", "tools": ["Bash"]},
    content("assistant", {"type": "text", "text": "hello"}, use("Bash", command="ls"), use("Edit", file_path="/workspace/a")),
    content("user", {"type": "tool_result", "tool_use_id": "u", "is_error": False, "content": [{"type": "text", "text": "x"}]}),
    {
        "type": "control_request",
        "request_id": "r",
        "request": {"subtype": "can_use_tool", "tool_name": "Edit", "input": {"file_path": "/workspace/a", "command": "ls"}},
    },
    {"type": "result", "subtype": "success", "is_error": False, "result": "done", "usage": COUNT},
)
ANSWERS: Says = {
    "initialize": {"userAgent": "codex/0.171.0 (x)"},
    "thread/start": {"thread": {"id": "t-1"}},
    "turn/start": {"turn": {"id": "turn-1"}},
}
LAST: Message = notice("turn/completed", turn={"id": "turn-1", "status": "completed"})


def answering(odd: Message) -> Play:
    """An agent of JSON-RPC that sends ``odd`` before each of its answers, and once more before the end of its turn."""
    answered = 0

    def play(told: list[dict[str, Any]]) -> list[Says] | None:
        nonlocal answered
        requests = [each for each in told if "method" in each and "id" in each]
        said: list[Says] = []
        for request in requests[answered:]:
            said += [odd, {"id": request["id"], "result": ANSWERS.get(request["method"], {})}]
        if len(requests) > answered and requests[-1]["method"] == "turn/start":
            said += [odd, LAST]
        answered = len(requests)
        return said or None

    return play


def saying(before: Iterable[Message], after: Iterable[Message]) -> Callable[[Message], Play]:
    """An agent that only talks: all at once, and then it ends."""

    def make(odd: Message) -> Play:
        left: list[list[Says]] = [[*before, odd, *after]]
        return lambda _: left.pop() if left else None

    return make


READERS: dict[str, tuple[AgentProtocol, tuple[Message, ...], Callable[[Message], Play]]] = {
    "codex": (CodexAppServer(("/opt/codex",)), APP_SERVER, answering),
    "claude": (ClaudeStream(("/opt/claude",)), CLAUDE, saying(CLAUDE[:2], CLAUDE[-1:])),
}


@pytest.mark.parametrize("reader", READERS)
async def test_no_message_is_a_defect(reader: str) -> None:
    protocol, messages, make = READERS[reader]
    defects, count = [], 0
    for message in messages:
        for odd in variants(message, ODD):
            if not isinstance(odd, dict):
                continue
            count += 1
            try:
                await protocol.converse(PlayedWire(make(odd)), ORDER, lambda _: None)
            except AgentWireError:
                continue
            except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
                defects.append(f"{error!r} for {str(odd)[:200]}")
    assert defects == []
    assert count > 20 * len(ODD)
