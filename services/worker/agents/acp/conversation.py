"""One conversation over the Agent Client Protocol: a session, its turns, every question answered, and the end.

1. ``initialize``: version 1, and neither files nor terminals are offered: the agent has its workspace.
2. ``session/load`` for a session that is to go on, else ``session/new``; then the mode that its entry names.
3. ``session/prompt``. Until its answer, updates are told as events and questions are answered (``question.py``). Once it is
   completed, what ``follow_up`` says is the next.
4. Where a question cannot be refused, and when the caller gives up: open questions are answered ``cancelled``, then
   ``session/cancel``, then two seconds. The box is killed after that, in every case.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    FileSystemCapabilities,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    RequestPermissionResponse,
    SetSessionModeRequest,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)
from pydantic import BaseModel, ValidationError

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.calls import ToolCalls
from gatewright.services.worker.agents.acp.peer import INVALID_PARAMS, METHOD_NOT_FOUND, Answer, Id, Peer, RefusedError, error
from gatewright.services.worker.agents.acp.question import Choice, Question, choose, options_of
from gatewright.services.worker.agents.acp.rules import NOTHING, SessionRules
from gatewright.services.worker.agents.acp.telling import JoiningTelling
from gatewright.services.worker.agents.permission import may
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, HowEnded, Tell, Wire
from gatewright.services.worker.agents.telling import quoted
from gatewright.version import __version__

VERSION: Final = 1
#: Node starts slowly on a busy host, and some agents look for a network that is not there first.
SETUP_SECONDS: Final = 120.0
#: What is left to an agent that was asked to stop.
STOP_SECONDS: Final = 2.0
#: Questions of one turn; an agent that asks more is stopped.
MAX_QUESTIONS: Final = 500
_MAX_PROBLEMS: Final = 20
_MAX_SESSION: Final = 500
_ENDS: Final[Mapping[str, HowEnded]] = {"end_turn": "completed", "cancelled": "interrupted"}


class _NothingToRefuseWithError(Exception):
    """A question had to be answered ``cancelled``: the turn is to be ended."""


class Conversation:
    """``name`` is the agent's in our words, ``rules`` what its entry says of its sessions."""

    def __init__(self, wire: Wire, order: AgentOrder, tell: Tell, name: str, rules: SessionRules) -> None:
        self._order = order
        self._rules = rules
        self._name = name
        self._wire = wire
        self._peer = Peer(wire, self._asked, self._told)
        self._telling = JoiningTelling(tell, order.directory)
        self._calls = ToolCalls(self._telling)
        self._session: str | None = None
        self._prompted = self._stopping = False
        self._questions = self._problems = 0
        self._counted = NOTHING
        #: A question was refused, and the agent has neither said nor begun anything since.
        self._refused_last = False

    async def hold(self) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        try:
            return await self._hold()
        except _NothingToRefuseWithError:
            await self._stop()
            return self._end("declined")
        except RefusedError as refusal:
            self._telling.problem(f"the agent refused ({refusal.number}): {refusal}")
            return self._end("failed")
        except ValidationError as fault:
            raise AgentWireError(f"the agent's answer is none of the protocol: {_fault(fault)}") from fault
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._telling.flush()

    async def _hold(self) -> AgentEnd:
        can_load = await self._initialize()
        await self._open_session(can_load=can_load)
        end = await self._take_turn(self._order.prompt)
        while end.how == "completed" and (words := await self._order.follow_up()) is not None:
            end = await self._take_turn(words)
        with contextlib.suppress(AgentWireError):
            await self._wire.finish()
        return end

    async def _take_turn(self, words: str) -> AgentEnd:
        number = await self._peer.begin("session/prompt", _wire(_prompt(self._session or "", words)))
        self._prompted, self._refused_last = True, False
        response = PromptResponse.model_validate(await self._peer.result(number))
        self._telling.flush()
        tokens = self._rules.usage(response) or self._counted
        if tokens != NOTHING:
            self._telling.usage(*tokens)
        if response.stop_reason not in _ENDS:
            self._telling.problem(f"the agent ended its turn with {response.stop_reason}")
        how = _ENDS.get(response.stop_reason, "failed")
        return self._end("declined" if self._refused_last and how != "failed" else how)

    async def _initialize(self) -> bool:
        request = InitializeRequest(
            protocol_version=VERSION,
            client_capabilities=ClientCapabilities(
                fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
            ),
            client_info=Implementation(name="gatewright", version=__version__),
        )
        raw = await self._peer.request("initialize", _wire(request), seconds=SETUP_SECONDS)
        response = InitializeResponse.model_validate(raw)
        if response.protocol_version != VERSION:
            raise AgentWireError(f"the agent speaks version {response.protocol_version} of the protocol, not {VERSION}")
        self._claimed = response.agent_info.version if response.agent_info else ""
        return response.agent_capabilities is not None and response.agent_capabilities.load_session is True

    async def _open_session(self, *, can_load: bool) -> None:
        session = None if self._order.resume is None else await self._load(self._order.resume, can_load=can_load)
        if session is None:
            request = NewSessionRequest(cwd=self._order.directory, mcp_servers=[], field_meta=self._rules.meta)
            raw = await self._peer.request("session/new", _wire(request), seconds=SETUP_SECONDS)
            session = NewSessionResponse.model_validate(raw).session_id
        if not 0 < len(session) <= _MAX_SESSION or quoted(session) != session:
            raise AgentWireError("the agent's session has an id that is none")
        self._session = session
        if self._rules.mode is not None:
            mode = SetSessionModeRequest(session_id=session, mode_id=self._rules.mode)
            await self._peer.request("session/set_mode", _wire(mode), seconds=SETUP_SECONDS)
        self._telling.started(self._name, self._claimed, session)

    async def _load(self, session: str, *, can_load: bool) -> str | None:
        """The session, None where it cannot be had again: a fresh one serves. What was said in it is not told again."""
        if not can_load:
            self._telling.problem("the agent cannot go on with a session; it begins a new one")
            return None
        request = LoadSessionRequest(session_id=session, cwd=self._order.directory, mcp_servers=[], field_meta=self._rules.meta)
        try:
            await self._peer.request("session/load", _wire(request), seconds=SETUP_SECONDS)
        except RefusedError as refusal:
            self._telling.problem(f"the session cannot be had again, a new one begins: {refusal}")
            return None
        return session

    async def _stop(self) -> None:
        """Ask the agent to stop, and give it two seconds; a wire that no longer works is no obstacle."""
        self._stopping = True
        if self._session is None:
            return
        with contextlib.suppress(AgentWireError, RefusedError, TimeoutError, _NothingToRefuseWithError):
            async with asyncio.timeout(STOP_SECONDS):
                for number in tuple(self._peer.open):
                    await self._peer.answer(number, {"result": _wire(_outcome(None))})
                await self._peer.notify("session/cancel", {"sessionId": self._session})
                if self._prompted:
                    await self._peer.result(self._peer.last)

    def _end(self, how: HowEnded) -> AgentEnd:
        self._telling.flush()
        return AgentEnd(how, self._telling.last, self._session)

    async def _asked(self, number: Id, method: str, params: Mapping[str, object]) -> Answer:
        if method == "session/request_permission":
            return await self._permission(number, params)
        self._problem(f"the agent asked for {method[:100]}, which is not offered")
        return error(METHOD_NOT_FOUND, "this is not offered")

    async def _permission(self, number: Id, params: Mapping[str, object]) -> Answer:
        """Named fields are read from the parameters, each by itself: nothing beside them can take their place."""
        try:
            call = ToolCallUpdate.model_validate(params.get("toolCall"))
        except ValidationError as fault:
            self._problem(f"the agent's question is none of the protocol: {_fault(fault)}")
            return error(INVALID_PARAMS, "the question has no tool call")
        what, subject = self._calls.ask(call)
        offered, kinds = options_of(params.get("options"))
        question = Question(call.tool_call_id, what, subject, offered, kinds)
        self._questions += 1
        ours = self._session is not None and params.get("sessionId") == self._session and self._prompted
        over = self._stopping or self._questions > MAX_QUESTIONS
        allowed = ours and may(what, self._order)
        choice = Choice("cancel") if over else choose(question, allowed=allowed)
        if self._questions <= MAX_QUESTIONS + 1:
            self._telling.answered(question.asked, subject, choice.answer, kinds)
        if what == "command" and self._order.shell == "deny":
            self._problem("policy_violation: the contract forbids commands, and the agent asked for one")
        self._refused_last = choice.answer != "allow"
        answer: Answer = {"result": _wire(_outcome(choice.option))}
        if choice.answer == "cancel" and not self._stopping:
            await self._peer.answer(number, answer)
            raise _NothingToRefuseWithError
        return answer

    def _told(self, method: str, params: Mapping[str, object]) -> None:
        """Updates of our session, once the turn has begun; everything else is none of ours."""
        update = params.get("update")
        if method != "session/update" or not self._prompted or params.get("sessionId") != self._session:
            return
        if not isinstance(update, dict):
            self._problem("the agent's update is none of the protocol")
            return
        try:
            self._update(update)
        except ValidationError as fault:
            self._problem(f"the agent's update is none of the protocol: {_fault(fault)}")

    def _update(self, update: dict[str, object]) -> None:
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                chunk = AgentMessageChunk.model_validate(update)
                self._counted = self._rules.add(self._counted, chunk.field_meta)
                if isinstance(chunk.content, TextContentBlock) and chunk.content.text:
                    self._telling.part(chunk.content.text)
                    self._refused_last = False
            case "tool_call":
                self._refused_last = False
                self._calls.learn(ToolCallStart.model_validate(update))
            case "tool_call_update":
                self._calls.learn(ToolCallProgress.model_validate(update))

    def _problem(self, words: str) -> None:
        self._problems += 1
        if self._problems <= _MAX_PROBLEMS:
            self._telling.problem(words)


def _prompt(session: str, text: str) -> PromptRequest:
    return PromptRequest(session_id=session, prompt=[TextContentBlock(type="text", text=text)])


def _outcome(option: str | None) -> RequestPermissionResponse:
    if option is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))


def _wire(message: BaseModel) -> dict[str, object]:
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)


def _fault(fault: ValidationError) -> str:
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    return quoted(f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}")
