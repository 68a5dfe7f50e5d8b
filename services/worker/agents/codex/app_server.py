"""Codex over its app server: JSON-RPC lines, without the key ``jsonrpc``.

1. ``initialize``, ``thread/start`` (or ``thread/resume``), ``turn/start``.
2. Until ``turn/completed``: notifications are reported as events, requests are answered by what they ask for.
3. After a completed turn: ``follow_up`` gives the next turn of the same thread.
4. Cancelled: ``turn/interrupt``, and the sandbox is killed in any case.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.codex.home import CODEX_HOME, DUMMY_KEY, KEY, SANDBOX, approval_policy, configuration
from gatewright.services.worker.agents.permission import What, leave_for
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, Asked, EmitEvent, HowEnded, Launch, Wire
from gatewright.services.worker.agents.reporter import MAX_MESSAGE, AgentReporter, quote_text, word
from gatewright.version import __version__

#: Seconds for an answer that needs no model.
_SETUP_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 2.0
#: Questions of one turn; an agent that asks more is stopped.
_MAX_QUESTIONS: Final = 500
_METHOD_NOT_FOUND: Final = -32601
_MAX_ID: Final = 200

Object = Mapping[str, object]
#: What a request asks for, and how it is answered: ``decision`` with a word for yes and one for no.
_QUESTIONS: Final[Mapping[str, tuple[Asked, str, str]]] = {
    "item/commandExecution/requestApproval": ("command", "accept", "decline"),
    "item/fileChange/requestApproval": ("edit", "accept", "decline"),
    "execCommandApproval": ("command", "approved", "denied"),
    "applyPatchApproval": ("edit", "approved", "denied"),
}
_STATUS: Final[Mapping[str, HowEnded]] = {"completed": "completed", "interrupted": "interrupted"}


@dataclass(frozen=True, slots=True)
class CodexAppServer:
    """An ``AgentProtocol``. ``program`` is the path of Codex."""

    program: tuple[str, ...]
    name: str = "codex"

    def launch(self, order: AgentOrder) -> Launch:
        """See ``AgentProtocol.launch``."""
        return Launch((*self.program, "app-server"), variables(), {".codex/config.toml": configuration(order).encode()})

    async def converse(self, wire: Wire, order: AgentOrder, emit: EmitEvent) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        return await _Conversation(wire, order, emit, self.name).hold()


def variables() -> dict[str, str]:
    """The environment of every form of Codex."""
    return {"CODEX_HOME": CODEX_HOME, KEY: DUMMY_KEY}


class _RefusedError(Exception):
    """Codex answered a request of ours with an error."""


class _Conversation:
    def __init__(self, wire: Wire, order: AgentOrder, emit: EmitEvent, name: str) -> None:
        self._wire = wire
        self._order = order
        self._reporter = AgentReporter(emit, order.directory)
        self._name = name
        self._number = 0
        self._questions = 0
        self._thread = ""
        self._turn = ""
        #: The end of our turn, which may come before the answer to its start.
        self._ended: Object | None = None
        #: A question was refused, and nothing was done since.
        self._refused_last = False
        self._in_turn = False
        #: The unfinished message: its id, and its text so far.
        self._unfinished = ("", "")

    async def hold(self) -> AgentEnd:
        try:
            await self._open_session()
            end = await self._take_turn(self._order.prompt)
            while end == "completed" and (words := await self._order.follow_up()) is not None:
                end = await self._take_turn(words)
        except _RefusedError as refusal:
            self._reporter.problem(str(refusal))
            end = "failed"
        except asyncio.CancelledError:
            self._in_turn = False
            with contextlib.suppress(AgentWireError, TimeoutError):
                async with asyncio.timeout(_STOP_SECONDS):
                    await self._interrupt()
            raise
        return AgentEnd(end, self._reporter.last, self._thread or None)

    async def _open_session(self) -> None:
        client = {"name": "gatewright", "title": None, "version": __version__}
        server = await self._request("initialize", {"clientInfo": client})
        await self._wire.send({"method": "initialized"})
        settings: dict[str, object] = {
            "cwd": self._order.directory,
            "sandbox": SANDBOX,
            "approvalPolicy": approval_policy(self._order),
            "model": self._order.model,
        }
        answer = await self._resume(settings, self._order.resume) if self._order.resume is not None else None
        if answer is None:
            answer = await self._request("thread/start", settings)
        thread = answer.get("thread")
        name = thread.get("id") if isinstance(thread, dict) else None
        if not isinstance(name, str) or not 0 < len(name) <= _MAX_ID or quote_text(name) != name:
            raise AgentWireError("Codex began a thread without an id")
        self._thread = name
        self._reporter.started(self._name, _version(server.get("userAgent")), name)

    async def _resume(self, settings: Object, thread: str) -> Object | None:
        """The answer for a thread that goes on, None where it cannot be had again: a fresh one serves."""
        try:
            return await self._request("thread/resume", {**settings, "threadId": thread})
        except _RefusedError as refusal:
            self._reporter.problem(f"the thread cannot be had again, a new one begins: {refusal}")
            return None

    async def _take_turn(self, words: str) -> HowEnded:
        self._ended, self._turn, self._in_turn = None, "", True
        params = {"threadId": self._thread, "input": [{"type": "text", "text": words, "text_elements": []}]}
        answer = await self._request("turn/start", params, seconds=None)
        turn = answer.get("turn")
        if isinstance(turn, dict) and isinstance(turn.get("id"), str):
            self._turn = turn["id"]
        ended = await self._end_of_turn()
        self._in_turn = False
        error = ended.get("error")
        if isinstance(error, dict):
            self._reporter.problem(error.get("message"))
        how = _STATUS.get(word(ended.get("status")), "failed")
        return "declined" if self._refused_last and how != "failed" else how

    async def _end_of_turn(self) -> Object:
        while True:
            if self._ended is not None:
                return self._ended
            await self._hear(await self._receive_message())

    async def _interrupt(self) -> None:
        if self._thread and self._turn:
            await self._request("turn/interrupt", {"threadId": self._thread, "turnId": self._turn})

    async def _request(self, method: str, params: Object, *, seconds: float | None = _SETUP_SECONDS) -> Object:
        """The result of a request; what comes before it is dealt with. Raises AgentWireError, _RefusedError."""
        self._number += 1
        number = self._number
        await self._wire.send({"id": number, "method": method, "params": params})
        try:
            async with asyncio.timeout(seconds):
                while True:
                    message = await self._receive_message()
                    if "method" in message or message.get("id") != number:
                        await self._hear(message)
                        continue
                    fault, result = message.get("error"), message.get("result")
                    if isinstance(fault, dict):
                        raise _RefusedError(f"Codex refused {method}: {quote_text(fault.get('message'))}")
                    return result if isinstance(result, dict) else {}
        except TimeoutError as late:
            raise AgentWireError(f"Codex did not answer {method} within {seconds:g} s", code="agent_silent") from late

    async def _receive_message(self) -> dict[str, object]:
        message = await self._wire.receive()
        if message is None:
            raise AgentWireError("Codex ended before its turn was over")
        return message

    async def _hear(self, message: Object) -> None:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str) or not isinstance(params, dict):
            return
        if "id" in message:
            await self._answer_request(message["id"], method, params)
        elif params.get("threadId", self._thread) == self._thread:
            self._notice(method, params)

    async def _answer_request(self, number: object, method: str, params: Object) -> None:
        self._questions += 1
        if self._questions > _MAX_QUESTIONS:
            raise AgentWireError(f"Codex asked more than {_MAX_QUESTIONS} questions")
        if method not in _QUESTIONS:
            # Grants of wider permissions, forms of tools, keys of accounts: what is not offered is not had.
            self._reporter.answered("other", method, "reject")
            self._refused_last = True
            await self._wire.send({"id": number, "error": {"code": _METHOD_NOT_FOUND, "message": "this is not offered"}})
            return
        asked, yes, no = _QUESTIONS[method]
        what: What = "network" if params.get("networkApprovalContext") is not None else _request_kind(asked)
        # What another thread asks, or one that is being stopped, is no question of our turn.
        ours = params.get("threadId", self._thread) == self._thread and self._in_turn
        named: Asked = "network" if what == "network" else asked
        allowed = await is_allowed(self._reporter, self._order, (named, what), _subject(params), (yes, no), ours=ours)
        self._refused_last = not allowed
        await self._wire.send({"id": number, "result": {"decision": yes if allowed else no}})

    def _notice(self, method: str, params: Object) -> None:
        match method:
            case "item/started" | "item/completed":
                item = params.get("item")
                if isinstance(item, dict):
                    self._item(item, over=method == "item/completed")
            case "item/agentMessage/delta":
                self._hear_delta(params)
            case "thread/tokenUsage/updated":
                usage = params.get("tokenUsage")
                total = usage.get("total") if isinstance(usage, dict) else None
                if isinstance(total, dict):
                    self._reporter.usage(total.get("inputTokens"), total.get("outputTokens"))
            case "error":
                error = params.get("error")
                if isinstance(error, dict):
                    self._reporter.problem(error.get("message"))
            case "turn/completed":
                turn = params.get("turn")
                if isinstance(turn, dict) and (not self._turn or turn.get("id") == self._turn):
                    self._ended = turn

    def _hear_delta(self, params: Object) -> None:
        if (item := word(params.get("itemId"))) != self._unfinished[0]:
            self._unfinished = (item, "")
        self._unfinished = (item, (self._unfinished[1] + word(params.get("delta")))[:MAX_MESSAGE])
        self._reporter.text(lambda: self._unfinished[1])

    def _item(self, item: Object, *, over: bool) -> None:
        match item.get("type"):
            case "agentMessage" if over:
                self._reporter.message(item.get("text"))
            case "commandExecution":
                done = word(item.get("status")) in {"completed", "failed"}
                if done or not over:
                    self._refused_last = self._refused_last and not done
                    self._reporter.command(item.get("command"), item.get("exitCode"))
            case "fileChange" if over:
                if item.get("status") == "completed":
                    self._refused_last = False
                    changes = item.get("changes")
                    paths = (
                        [change.get("path") for change in changes if isinstance(change, dict)]
                        if isinstance(changes, list)
                        else []
                    )
                    self._reporter.files(paths)


def _request_kind(asked: Asked) -> What:
    return "command" if asked == "command" else "edit"


def _subject(params: Object) -> str:
    command = params.get("command")
    if isinstance(command, list):
        command = " ".join(word for word in command if isinstance(word, str))
    return quote_text(command) or quote_text(params.get("reason")) or quote_text(params.get("itemId"), 200)


def _version(agent: object) -> str:
    """Of ``name/1.2.3 (...)``."""
    return quote_text(agent, 200).partition("/")[2].partition(" ")[0]


# How every form of Codex that asks is answered: by what it asks for, with one word for yes and one for no.
async def is_allowed(
    reporter: AgentReporter, order: AgentOrder, asked: tuple[Asked, What], subject: str, words: tuple[str, str], *, ours: bool
) -> bool:
    """Return whether permission is given, and report it.

    Args:
        reporter: the event reporter.
        order: the order.
        asked: the kind of request, and what it is for.
        subject: what it is about.
        words: the offered answers.
        ours: whether it belongs to the turn in progress.
    """
    named, what = asked
    allowed, by, person = await leave_for(what, subject, order, open_turn=ours)
    reporter.answered(named, subject, "allow" if allowed else "reject", words, by, person)
    if what == "command" and order.shell == "deny":
        reporter.problem("policy_violation: the contract forbids commands, and the agent asked for one")
    return allowed
