"""One conversation over the Agent Client Protocol: a session, its turns, an answer to every request, and the end.

1. ``initialize``: the protocol version of its entry. Neither files nor terminals are offered: the agent has its workspace.
2. The session to continue, else a new one; then the mode that its entry names.
3. ``session/prompt``. Until the turn's end, updates are reported as events and requests are answered (``question.py``). After
   that, ``follow_up`` gives the next prompt.
4. When a request cannot be refused, and when the caller gives up: open requests are answered ``cancelled``, then
   ``session/cancel``, then two seconds. The sandbox is killed after that, in every case.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse
from pydantic import ValidationError

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.calls import ToolCalls
from gatewright.services.worker.agents.acp.dialect import (
    AgentUpdate,
    CallReport,
    Dialect,
    MessagePart,
    SessionPlace,
    TurnBegun,
    TurnEnd,
    WholeMessage,
    fault_of,
    sent,
)
from gatewright.services.worker.agents.acp.joining_reporter import JoiningReporter
from gatewright.services.worker.agents.acp.peer import INVALID_PARAMS, METHOD_NOT_FOUND, Answer, Id, Peer, RefusedError, error
from gatewright.services.worker.agents.acp.question import Choice, PermissionQuestion, choose, options_of
from gatewright.services.worker.agents.acp.rules import NOTHING, SessionRules
from gatewright.services.worker.agents.acp.version1 import FirstVersion
from gatewright.services.worker.agents.acp.version2 import SecondVersion
from gatewright.services.worker.agents.permission import By, leave_for
from gatewright.services.worker.agents.port import AgentEnd, AgentOrder, EmitEvent, HowEnded, Wire
from gatewright.services.worker.agents.reporter import quote_text

#: Node starts slowly on a busy host, and some agents look for a network that is not there first.
SETUP_SECONDS: Final = 120.0
#: What is left to an agent that was asked to stop.
STOP_SECONDS: Final = 2.0
#: Questions of one turn; an agent that asks more is stopped.
MAX_QUESTIONS: Final = 500
_MAX_PROBLEMS: Final = 20
_MAX_SESSION: Final = 500
#: Updates about messages and actions.
_PAST: Final = frozenset(
    {"user_message", "user_message_chunk", "agent_message", "agent_message_chunk", "tool_call", "tool_call_update"}
)
_DIALECTS: Final[Mapping[int, Callable[[SessionRules], Dialect]]] = {1: FirstVersion, 2: SecondVersion}
_ENDS: Final[Mapping[str, HowEnded]] = {"end_turn": "completed", "cancelled": "interrupted"}


class _NothingToRefuseWithError(Exception):
    """A question had to be answered ``cancelled``: the turn is to be ended."""


class Conversation:
    """``name`` is Gatewright's name of the agent, ``rules`` are its entry's session rules."""

    def __init__(self, wire: Wire, order: AgentOrder, emit: EmitEvent, name: str, rules: SessionRules) -> None:
        self._order = order
        self._rules = rules
        self._name = name
        self._wire = wire
        self._peer = Peer(wire, self._answer_request, self._take_notification)
        self._reporter = JoiningReporter(emit, order.directory)
        self._calls = ToolCalls(self._reporter)
        self._dialect = _DIALECTS[rules.version](rules)
        self._place = SessionPlace(order.directory, rules.meta, order.tool_addresses)
        self._session: str | None = None
        #: State of the turn: whether the agent has accepted it, and its end where that is a notification.
        self._accepted = False
        self._ended: TurnEnd | None = None
        self._prompted = self._stopping = self._recalled = False
        self._questions = self._problems = 0
        self._counted = NOTHING
        #: A request was refused, and the agent has neither written nor started anything since.
        self._refused_last = False

    async def hold(self) -> AgentEnd:
        """See ``AgentProtocol.converse``."""
        try:
            return await self._hold()
        except _NothingToRefuseWithError:
            await self._stop()
            return self._end_conversation("declined")
        except RefusedError as refusal:
            self._reporter.problem(f"the agent refused ({refusal.number}): {refusal}")
            return self._end_conversation("failed")
        except ValidationError as fault:
            raise AgentWireError(f"the agent's answer is none of the protocol: {fault_of(fault)}") from fault
        except asyncio.CancelledError:
            await self._stop()
            raise
        finally:
            self._reporter.flush()

    async def _hold(self) -> AgentEnd:
        can_load = await self._initialize()
        await self._open_session(can_load=can_load)
        end = await self._take_turn(self._order.prompt)
        while end.how == "completed" and (words := await self._order.follow_up()) is not None:
            end = await self._take_turn(words)
        with contextlib.suppress(AgentWireError, TimeoutError):
            if self._order.written is not None:
                await self._order.written()
            await self._wire.finish()
            if self._order.written is not None:
                # Some agents write their last message only now; killing them at once would lose it.
                async with asyncio.timeout(STOP_SECONDS):
                    while await self._wire.receive() is not None:
                        pass
        return end

    async def _take_turn(self, words: str) -> AgentEnd:
        self._accepted, self._ended, self._refused_last = False, None, False
        number = await self._peer.begin("session/prompt", self._dialect.prompt(self._session or "", words))
        self._prompted = True
        end = self._dialect.end_of(await self._peer.result(number)) or await self._until_idle()
        self._reporter.flush()
        tokens = end.tokens or self._counted
        if tokens != NOTHING:
            self._reporter.usage(*tokens)
        if end.reason not in _ENDS:
            self._reporter.problem(f"the agent ended its turn with {quote_text(end.reason, 100) or 'no reason'}")
        how = _ENDS.get(end.reason, "failed")
        return self._end_conversation("declined" if self._refused_last and how != "failed" else how)

    async def _until_idle(self) -> TurnEnd:
        """The end of a turn that the agent has accepted; its word for it may have come before that it did."""
        self._accepted = True
        await self._peer.until(lambda: self._ended is not None)
        return self._ended or TurnEnd("")

    async def _initialize(self) -> bool:
        raw = await self._peer.request("initialize", self._dialect.initialize(), seconds=SETUP_SECONDS)
        self._dialect = self._agree_version(raw.get("protocolVersion"))
        standing = self._dialect.standing(raw)
        self._claimed = standing.claimed
        if self._order.tools and not standing.uses_servers:
            raise AgentWireError("the agent uses no tool servers by HTTP, and the contract gives it tools")
        return standing.resumes

    def _agree_version(self, version: object) -> Dialect:
        """The version that the agent answers with: the one that was asked for, or the older one where its entry accepts it."""
        asked = self._rules.version
        if type(version) is int and version == asked:
            return self._dialect
        if type(version) is int and version in _DIALECTS and version < asked and self._rules.accepts_older:
            self._reporter.problem(f"the agent speaks version {version} of the protocol, which its entry accepts for {asked}")
            return _DIALECTS[version](self._rules)
        version = quote_text(str(version), 40)
        raise AgentWireError(f"the agent uses version {version} of the protocol, not {asked}", code="agent_protocol_refused")

    async def _open_session(self, *, can_load: bool) -> None:
        session, opened = self._order.resume, None
        if session is not None:
            opened = await self._resume_session(session, can_load=can_load)
        if session is None or opened is None:
            request = self._dialect.begin(self._place)
            opened = await self._peer.request(request.method, request.params, seconds=SETUP_SECONDS)
            session = self._dialect.session_of(opened)
        if not 0 < len(session) <= _MAX_SESSION or quote_text(session) != session:
            raise AgentWireError("the agent's session has an id that is none")
        self._session = session
        if self._rules.mode is not None:
            mode = self._dialect.set_mode(session, self._rules.mode, opened)
            await self._peer.request(mode.method, mode.params, seconds=SETUP_SECONDS)
        self._reporter.started(self._name, self._claimed, session)

    async def _resume_session(self, session: str, *, can_load: bool) -> Mapping[str, object] | None:
        """Return the answer to resuming the session; None when it cannot be resumed and a new one is needed.

        The replayed past of the session is not reported again.
        """
        if not can_load:
            self._reporter.problem("the agent cannot go on with a session; it begins a new one")
            return None
        request = self._dialect.resume(session, self._place)
        try:
            opened = await self._peer.request(request.method, request.params, seconds=SETUP_SECONDS)
        except RefusedError as refusal:
            self._reporter.problem(f"the session cannot be had again, a new one begins: {refusal}")
            return None
        if not self._recalled:
            # The protocol replays the past; an agent may accept an unknown session and start an empty one.
            self._reporter.problem("the agent resumed the session without replaying its past: it may remember nothing")
        return opened

    async def _stop(self) -> None:
        """Ask the agent to stop, and give it two seconds; a wire that no longer works is no obstacle."""
        self._stopping = True
        if self._session is None:
            return
        with contextlib.suppress(AgentWireError, RefusedError, TimeoutError, _NothingToRefuseWithError):
            async with asyncio.timeout(STOP_SECONDS):
                for number in tuple(self._peer.open):
                    await self._peer.answer(number, {"result": sent(_outcome(None))})
                await self._peer.notify("session/cancel", {"sessionId": self._session})
                if self._prompted and not self._accepted:
                    ended = self._dialect.end_of(await self._peer.result(self._peer.last))
                    self._accepted = ended is None
                if self._accepted:
                    await self._until_idle()

    def _end_conversation(self, how: HowEnded) -> AgentEnd:
        self._reporter.flush()
        return AgentEnd(how, self._reporter.last, self._session)

    async def _answer_request(self, number: Id, method: str, params: Mapping[str, object]) -> Answer:
        if method == "session/request_permission":
            return await self._permission(number, params)
        self._problem(f"the agent asked for {method[:100]}, which is not offered")
        return error(METHOD_NOT_FOUND, "this is not offered")

    async def _permission(self, number: Id, params: Mapping[str, object]) -> Answer:
        """Named fields are read from the parameters, each by itself: nothing beside them can take their place."""
        try:
            call = self._dialect.question(params)
        except ValidationError as fault:
            self._problem(f"the agent's question is none of the protocol: {fault_of(fault)}")
            return error(INVALID_PARAMS, "the question has no tool call")
        what, subject = self._calls.ask(call)
        offered, kinds = options_of(params.get("options"))
        question = PermissionQuestion(call.name, what, subject, offered, kinds)
        self._questions += 1
        ours = self._session is not None and params.get("sessionId") == self._session and self._prompted
        over = self._stopping or self._questions > MAX_QUESTIONS
        by: By = "contract"
        allowed, person = False, ""
        if ours and not over and len(offered.get("allow_once", ())) == 1:
            allowed, by, person = await leave_for(what, subject, self._order, open_turn=True)
        choice = Choice("cancel") if over else choose(question, allowed=allowed)
        if self._questions <= MAX_QUESTIONS + 1:
            self._reporter.answered(question.asked, subject, choice.answer, kinds, by, person)
        if what == "command" and self._order.shell == "deny":
            self._problem("policy_violation: the contract forbids commands, and the agent asked for one")
        self._refused_last = choice.answer != "allow"
        answer: Answer = {"result": sent(_outcome(choice.option))}
        if choice.answer == "cancel" and not self._stopping:
            await self._peer.answer(number, answer)
            raise _NothingToRefuseWithError
        return answer

    def _take_notification(self, method: str, params: Mapping[str, object]) -> None:
        """Updates of our session, once the turn has begun; everything else is none of ours."""
        update = params.get("update")
        if method == "session/update" and not self._prompted and params.get("sessionId") == self._order.resume:
            kind = update.get("sessionUpdate") if isinstance(update, dict) else None
            self._recalled = self._recalled or kind in _PAST
        if method != "session/update" or not self._prompted or params.get("sessionId") != self._session:
            return
        if not isinstance(update, dict):
            self._problem("the agent's update is none of the protocol")
            return
        try:
            self._update(update)
        except ValidationError as fault:
            self._problem(f"the agent's update is none of the protocol: {fault_of(fault)}")

    def _update(self, update: dict[str, object]) -> None:
        for item in self._dialect.read(update):
            self._hear_update(item)

    def _hear_update(self, update: AgentUpdate) -> None:
        match update:
            case MessagePart(text, message, meta):
                self._counted = self._rules.add(self._counted, meta)
                if text:
                    self._reporter.part(text, message)
                    self._refused_last = False
            case WholeMessage(text, message):
                self._reporter.whole(text, message)
                self._refused_last = self._refused_last and not text
            case CallReport():
                if self._calls.learn(update):
                    self._refused_last = False
            case TurnBegun():
                self._accepted = True
            case TurnEnd():
                # An idle notification before it accepts the prompt refers to the previous turn.
                if self._accepted and self._ended is None:
                    self._ended = update

    def _problem(self, words: str) -> None:
        self._problems += 1
        if self._problems <= _MAX_PROBLEMS:
            self._reporter.problem(words)


def _outcome(option: str | None) -> RequestPermissionResponse:
    if option is None:
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))
