"""Codex by ``codex mcp-server``, for versions before 0.154, whose app server is another: tools ``codex`` and ``codex-reply``.

1. ``initialize``, ``notifications/initialized``, then ``tools/call`` of ``codex``; its result names the thread.
2. Until the result: events (``codex/event``) are told, and questions (``elicitation/create``) are answered by what they ask
   for, with the ``decision`` that this server wants instead of the content that its protocol has.
3. What ``follow_up`` says is a ``codex-reply`` to the same thread. A thread of an earlier process is not known to a new one:
   the server is asked for it, and a fresh one follows where it says no.
4. Cancelled: ``notifications/cancelled``, and the box is killed in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.codex.app_server import files, variables
from gatewright.services.worker.agents.codex.approval import is_allowed
from gatewright.services.worker.agents.codex.home import SANDBOX, start_of
from gatewright.services.worker.agents.permission import What
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, Asked, HowEnded, Launch, Tell, Wire
from gatewright.services.worker.agents.telling import AgentReporter, quoted, word
from gatewright.version import __version__

_VERSION: Final = "2025-06-18"
_SETUP_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
_MAX_QUESTIONS: Final = 500
_MAX_ID: Final = 200
_METHOD_NOT_FOUND: Final = -32601
#: What an elicitation is for, as the server names it.
_QUESTIONS: Final[Mapping[str, Asked]] = {"exec-approval": "command", "patch-approval": "edit"}

Object = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class CodexMcpServer:
    """An ``AgentProtocol``; see ``CodexAppServer``."""

    program: tuple[str, ...]
    name: str = "codex-mcp-server"
    own_catalogue: bool = False

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``."""
        # It cannot be set to ask about each command: where each wants an approval, there is no shell.
        shell = "deny" if order.shell == "untrusted" else order.shell
        home = files(replace(order, shell=shell), own_catalogue=self.own_catalogue)
        argv = start_of(self.program, ("mcp-server",), order, own_catalogue=self.own_catalogue)
        return Launch(argv, variables(), home)

    async def converse(self, wire: Wire, order: AgentOrder, tell: Tell) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        return await _Conversation(wire, order, tell, self.name).hold()


class _Conversation:
    def __init__(self, wire: Wire, order: AgentOrder, tell: Tell, name: str) -> None:
        self._wire = wire
        self._order = order
        self._telling = AgentReporter(tell, order.directory)
        self._name = name
        self._number = self._questions = 0
        self._version = self._thread = ""
        self._in_turn = self._refused_last = False

    async def hold(self) -> AgentEnd:
        try:
            client = {"name": "gatewright", "version": __version__}
            params = {"protocolVersion": _VERSION, "capabilities": {"elicitation": {}}, "clientInfo": client}
            said = await self._request("initialize", params, seconds=_SETUP_SECONDS)
            server = said.get("serverInfo")
            self._version = quoted(server.get("version"), 100) if isinstance(server, dict) else ""
            await self._send({"method": "notifications/initialized"})
            end = await self._first_turn()
            while end == "completed" and (words := await self._order.follow_up()) is not None:
                end = await self._take_turn("codex-reply", {"threadId": self._thread, "prompt": words})
        except asyncio.CancelledError:
            self._in_turn = False
            with contextlib.suppress(AgentWireError, TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._send({"method": "notifications/cancelled", "params": {"requestId": self._number}})
            raise
        with contextlib.suppress(AgentWireError):
            await self._wire.finish()
        return AgentEnd(end, self._telling.last, self._thread or None)

    async def _first_turn(self) -> HowEnded:
        if self._order.resume is not None:
            end = await self._take_turn("codex-reply", {"threadId": self._order.resume, "prompt": self._order.prompt})
            if self._thread:
                return end
            self._telling.problem("the thread cannot be had again, a new one begins")
        settings = {
            "prompt": self._order.prompt,
            "cwd": self._order.directory,
            "sandbox": SANDBOX,
            "approval-policy": "on-request" if self._order.shell == "on-request" else "never",
            "model": self._order.model,
        }
        end = await self._take_turn("codex", settings)
        if not self._thread:
            raise AgentWireError("Codex began a thread without an id")
        return end

    async def _take_turn(self, tool: str, arguments: Object) -> HowEnded:
        self._in_turn = True
        result = await self._request("tools/call", {"name": tool, "arguments": arguments}, seconds=None)
        self._in_turn = False
        structured = result.get("structuredContent")
        told = structured if isinstance(structured, dict) else {}
        failed = result.get("isError") is True
        if not failed:
            self._stand(told.get("threadId"))
        if failed or result.get("error") is not None:
            self._telling.problem(told.get("content") or _text(result) or result.get("error"))
            return "failed"
        return "declined" if self._refused_last else "completed"

    def _stand(self, thread: object) -> None:
        """The thread is there; its id is told once."""
        if isinstance(thread, str) and 0 < len(thread) <= _MAX_ID and quoted(thread) == thread and not self._thread:
            self._thread = thread
            self._telling.started(self._name, self._version, thread)

    async def _request(self, method: str, params: Object, *, seconds: float | None) -> Object:
        """The result of a request, ``error`` in it when it was refused. Raises AgentWireError."""
        self._number += 1
        number = self._number
        await self._send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self._wire.receive()
                    if message is None:
                        raise AgentWireError("Codex ended before its turn was over")
                    if "method" not in message and message.get("id") == number:
                        fault, result = message.get("error"), message.get("result")
                        if isinstance(fault, dict):
                            return {"error": quoted(fault.get("message")) or "refused", "isError": True}
                        return result if isinstance(result, dict) else {}
                    await self._hear(message)
        except TimeoutError as late:
            raise AgentWireError(f"Codex did not answer {method} within {seconds:g} s", code="agent_silent") from late

    async def _send(self, message: Object) -> None:
        await self._wire.send({"jsonrpc": "2.0", **message})

    async def _hear(self, message: Object) -> None:
        params = message.get("params")
        given: Object = params if isinstance(params, dict) else {}
        if "method" in message and "id" in message:
            await self._answer(message["id"], message["method"], given)
        elif message.get("method") == "codex/event":
            event = given.get("msg")
            if isinstance(event, dict):
                self._event(event)

    async def _answer(self, number: object, method: object, params: Object) -> None:
        self._questions += 1
        if self._questions > _MAX_QUESTIONS:
            raise AgentWireError(f"Codex asked more than {_MAX_QUESTIONS} questions")
        asked = _QUESTIONS.get(word(params.get("codex_elicitation"))) if method == "elicitation/create" else None
        self._refused_last = True
        if asked is None:
            self._telling.answered("other", method, "reject")
            await self._send({"id": number, "error": {"code": _METHOD_NOT_FOUND, "message": "this is not offered"}})
            return
        what: What = "command" if asked == "command" else "edit"
        subject = _words(params.get("codex_command")) or quoted(params.get("message"))
        ours = self._in_turn and params.get("threadId", self._thread) == self._thread
        allowed = await is_allowed(self._telling, self._order, (asked, what), subject, ("approved", "denied"), ours=ours)
        self._refused_last = not allowed
        await self._send({"id": number, "result": {"decision": "approved" if allowed else "denied"}})

    def _event(self, event: Object) -> None:
        match event.get("type"):
            case "session_configured":
                self._stand(event.get("thread_id") or event.get("session_id"))
            case "agent_message":
                self._telling.message(event.get("message"))
            case "exec_command_begin":
                self._telling.command(_words(event.get("command")))
            case "exec_command_end":
                self._refused_last = False
                self._telling.command(_words(event.get("command")), event.get("exit_code"))
            case "patch_apply_end" if event.get("success") is True:
                self._refused_last = False
                changes = event.get("changes")
                self._telling.files(changes if isinstance(changes, dict) else ())
            case "token_count":
                info = event.get("info")
                total = info.get("total_token_usage") if isinstance(info, dict) else None
                if isinstance(total, dict):
                    self._telling.usage(total.get("input_tokens"), total.get("output_tokens"))
            case "error" | "stream_error":
                self._telling.problem(event.get("message"))


def _words(command: object) -> str:
    if isinstance(command, list):
        return quoted(" ".join(word for word in command if isinstance(word, str)))
    return quoted(command)


def _text(result: Object) -> str:
    content = result.get("content")
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return quoted(" ".join(part for part in parts if isinstance(part, str)))
