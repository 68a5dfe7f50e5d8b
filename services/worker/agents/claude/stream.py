"""Claude Code over its stream of JSON lines in both directions.

1. ``initialize``, then the prompt as a message of the user.
2. Until ``result``: messages are reported as events, ``can_use_tool`` is answered by what the tool does. ``is_error`` of the
   result decides, never its subtype.
3. After a result without error: ``follow_up`` gives the next message.
4. Cancelled: ``interrupt``, and the sandbox is killed in any case: Claude's own shell would outlive it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.permissions import SHELL_MEANINGS
from gatewright.services.worker.agents.permission import What, leave_for
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, Answered, Asked, EmitEvent, HowEnded, Launch, Wire
from gatewright.services.worker.agents.reporter import MAX_MESSAGE, AgentReporter, quote_text

_DUMMY_KEY: Final = "held-by-the-gateway"
_HOME: Final = "@HOME@/.claude"
_READERS: Final = ("Read", "Glob", "Grep")
_WRITERS: Final = ("Edit", "Write")
_SHELL: Final = "Bash"
#: What a tool does; one that is not listed is ``other``, and not had.
_TOOLS: Final[Mapping[str, What]] = {
    **dict.fromkeys(_READERS, "read"),
    **dict.fromkeys((*_WRITERS, "MultiEdit", "NotebookEdit"), "edit"),
    _SHELL: "command",
    "WebFetch": "network",
    "WebSearch": "network",
}
_ASKED: Final[Mapping[What, Asked]] = {"command": "command", "edit": "edit", "network": "network"}
_STOP_SECONDS: Final = 2.0
_MAX_QUESTIONS: Final = 500
_MAX_ID: Final = 200

Object = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ClaudeStream:
    """An ``AgentProtocol``. ``program`` is where Claude Code lies."""

    program: tuple[str, ...]
    name: str = "claude"

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``. No settings of any folder are read: hooks, servers and helpers of keys live there."""
        words = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        words += ["--include-partial-messages", "--permission-prompt-tool", "stdio"]
        words += ["--setting-sources", "", "--strict-mcp-config"]
        words += ["--model", order.model, "--tools", ",".join(_tools(order)), *_permissions(order)]
        if order.tools:
            servers = {name: {"type": "http", "url": url} for name, url in order.tool_addresses.items()}
            words += ["--mcp-config", json.dumps({"mcpServers": servers})]
        if order.resume is not None:
            words += ["--resume", order.resume]
        return Launch((*self.program, *words), _variables(order))

    async def converse(self, wire: Wire, order: AgentOrder, emit: EmitEvent) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        return await _Conversation(wire, order, emit, self.name).hold()


def _tools(order: AgentOrder) -> tuple[str, ...]:
    if order.read_only:
        return _READERS
    shell = () if SHELL_MEANINGS[order.shell].approval_policy is None else (_SHELL,)
    return (*_READERS, *_WRITERS, *shell)


def _permissions(order: AgentOrder) -> tuple[str, ...]:
    """``never``: it is not to ask, so commands need no leave. Otherwise it asks for each, and is answered by the contract."""
    if order.read_only or order.shell != "never":
        return ("--permission-mode", "default")
    return ("--permission-mode", "acceptEdits", "--allowedTools", _SHELL)


def _variables(order: AgentOrder) -> dict[str, str]:
    return {
        "CLAUDE_CONFIG_DIR": _HOME,
        "ANTHROPIC_API_KEY": _DUMMY_KEY,
        "ANTHROPIC_BASE_URL": order.base_url,
        # Side calls (titles, summaries) go to the same model: no other one is granted.
        "ANTHROPIC_SMALL_FAST_MODEL": order.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": order.model,
        # The gateway tries again by itself.
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
    }


class _Conversation:
    def __init__(self, wire: Wire, order: AgentOrder, emit: EmitEvent, name: str) -> None:
        self._wire = wire
        self._order = order
        self._reporter = AgentReporter(emit, order.directory)
        self._name = name
        self._session = ""
        self._questions = 0
        self._number = 0
        #: Tools in use, by the id of the use: command lines and files.
        self._uses: dict[str, Object] = {}
        self._refused_last = False
        #: The unfinished message so far.
        self._unfinished = ""

    async def hold(self) -> AgentEnd:
        try:
            await self._control({"subtype": "initialize"})
            end = await self._take_turn(self._order.prompt)
            while end == "completed" and (words := await self._order.follow_up()) is not None:
                end = await self._take_turn(words)
        except asyncio.CancelledError:
            with contextlib.suppress(AgentWireError, TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._control({"subtype": "interrupt"})
                    while (message := await self._wire.receive()) is not None and message.get("type") != "result":
                        pass
            raise
        with contextlib.suppress(AgentWireError):
            await self._wire.finish()
        return AgentEnd(end, self._reporter.last, self._session or None)

    async def _take_turn(self, words: str) -> HowEnded:
        message = {"role": "user", "content": words}
        await self._wire.send({"type": "user", "message": message, "parent_tool_use_id": None, "session_id": self._session})
        while (event := await self._wire.receive()) is not None:
            if event.get("type") == "result":
                return self._result(event)
            await self._hear(event)
        raise AgentWireError("Claude ended before its turn was over")

    def _result(self, event: Object) -> HowEnded:
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._reporter.usage(usage.get("input_tokens"), usage.get("output_tokens"))
        if event.get("is_error") is not False:
            self._reporter.problem(event.get("result") or event.get("subtype"))
            return "failed"
        return "declined" if self._refused_last else "completed"

    async def _hear(self, event: Object) -> None:
        match event.get("type"):
            case "system" if event.get("subtype") == "init" and not self._session:
                session = event.get("session_id")
                if isinstance(session, str) and 0 < len(session) <= _MAX_ID and quote_text(session) == session:
                    self._session = session
                self._reporter.started(self._name, quote_text(event.get("claude_code_version"), 100), self._session)
            case "assistant":
                for part in _message_parts(event):
                    self._part(part)
            case "user":
                for part in _message_parts(event):
                    if part.get("type") == "tool_result":
                        self._over(part)
            case "stream_event":
                self._hear_delta(event.get("event"))
            case "control_request":
                await self._answer_request(event.get("request_id"), event.get("request"))
            case _:
                pass

    def _hear_delta(self, event: object) -> None:
        if not isinstance(event, dict):
            return
        if event.get("type") == "content_block_start":
            self._unfinished = ""
        delta = event.get("delta")
        if isinstance(delta, dict) and isinstance(text := delta.get("text"), str):
            self._unfinished = (self._unfinished + text)[:MAX_MESSAGE]
            self._reporter.text(lambda: self._unfinished)

    def _part(self, part: Object) -> None:
        if part.get("type") == "text":
            self._reporter.message(part.get("text"))
        elif part.get("type") == "tool_use" and isinstance(part.get("id"), str) and len(self._uses) < _MAX_QUESTIONS:
            self._uses[str(part["id"])] = part
            given = part.get("input")
            if part.get("name") == _SHELL and isinstance(given, dict):
                self._reporter.command(given.get("command"))

    def _over(self, part: Object) -> None:
        use = self._uses.pop(str(part.get("tool_use_id")), None)
        if use is None or part.get("is_error") is True:
            return
        given, what = use.get("input"), _TOOLS.get(str(use.get("name")), "other")
        if isinstance(given, dict) and what == "edit":
            self._refused_last = False
            self._reporter.files((given.get("file_path"),))
        elif isinstance(given, dict) and what == "command":
            self._refused_last = False
            self._reporter.command(given.get("command"), 0)

    async def _answer_request(self, number: object, request: object) -> None:
        self._questions += 1
        if self._questions > _MAX_QUESTIONS:
            raise AgentWireError(f"Claude asked more than {_MAX_QUESTIONS} questions")
        if not isinstance(request, dict) or request.get("subtype") != "can_use_tool":
            await self._reply({"subtype": "error", "request_id": number, "error": "this is not offered"})
            return
        tool, given = quote_text(request.get("tool_name"), 100), request.get("input")
        given = given if isinstance(given, dict) else {}
        what = _TOOLS.get(tool, "other")
        subject = quote_text(given.get("command")) or quote_text(given.get("file_path")) or tool
        # Questions are read during our turns alone.
        allowed, by, person = await leave_for(what, subject, self._order, open_turn=True)
        answer: Answered = "allow" if allowed else "reject"
        self._reporter.answered(_ASKED.get(what, "other"), subject, answer, ("allow", "deny"), by, person)
        if what == "command" and self._order.shell == "deny":
            self._reporter.problem("policy_violation: the contract forbids commands, and the agent asked for one")
        self._refused_last = not allowed
        refusal = {"behavior": "deny", "message": "The contract does not allow this, or no person did."}
        response = {"behavior": "allow", "updatedInput": given} if allowed else refusal
        await self._reply({"subtype": "success", "request_id": number, "response": response})

    async def _reply(self, response: Object) -> None:
        await self._wire.send({"type": "control_response", "response": response})

    async def _control(self, request: Object) -> None:
        self._number += 1
        await self._wire.send({"type": "control_request", "request_id": f"gatewright-{self._number}", "request": request})


def _message_parts(event: Object) -> list[Object]:
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
