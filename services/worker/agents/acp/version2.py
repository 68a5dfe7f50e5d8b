"""Version 2 of the Agent Client Protocol, a draft, which an operator enables by name.

The answer to a prompt accepts it; its turn ends when the agent reports that it is idle. Reports with the same id are about the
same call or message. A cleared field keeps its value, since permission depends on the worst report.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from gatewright.errors import AgentWireError
from gatewright.services.worker.agents.acp.dialect import (
    AgentStanding,
    AgentUpdate,
    CallReport,
    MessagePart,
    Params,
    Request,
    SessionPlace,
    TurnBegun,
    TurnEnd,
    WholeMessage,
    sent,
)
from gatewright.services.worker.agents.acp.rules import SessionRules, tokens_of
from gatewright.services.worker.agents.acp.version2_types import (
    CallContent,
    CallContentChunk,
    CommandSubject,
    Implementor,
    Initialize,
    Initialized,
    MessageChunk,
    MessageUpsert,
    NewSession,
    Question,
    ResumeSession,
    SessionOpened,
    SetConfigOption,
    State,
    Terminal,
    TextBlock,
    ToolCall,
    TurnPrompt,
)
from gatewright.version import __version__

VERSION: Final = 2
#: Terminals whose call is remembered.
MAX_TERMINALS: Final = 1_000
#: The name of what has no call of its own.
_NO_CALL: Final = "\nno call"


class SecondVersion:
    """A ``Dialect``."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules
        self._terminals: OrderedDict[str, str] = OrderedDict()

    def initialize(self) -> Params:
        """See ``Dialect``."""
        return sent(Initialize(protocol_version=VERSION, info=Implementor(name="gatewright", version=__version__)))

    def standing(self, answer: Params) -> AgentStanding:
        """See ``Dialect``."""
        response = Initialized.model_validate(answer)
        sessions = (response.capabilities or {}).get("session")
        if not isinstance(sessions, dict):
            raise AgentWireError("the agent reports that it has no sessions")
        return AgentStanding(resumes=True, claimed=response.info.version)

    def begin(self, place: SessionPlace) -> Request:
        """See ``Dialect``."""
        own = None if place.meta is None else dict(place.meta)
        return Request("session/new", sent(NewSession(cwd=place.directory, meta=own)))

    def resume(self, session: str, place: SessionPlace) -> Request:
        """See ``Dialect``."""
        own = None if place.meta is None else dict(place.meta)
        return Request("session/resume", sent(ResumeSession(session_id=session, cwd=place.directory, meta=own)))

    def session_of(self, answer: Params) -> str:
        """See ``Dialect``."""
        return SessionOpened.model_validate(answer).session_id or ""

    def set_mode(self, session: str, mode: str, opened: Params) -> Request:
        """See ``Dialect``. A mode is a setting with that category; of two such settings neither is used."""
        options = SessionOpened.model_validate(opened).config_options or []
        modes = [option for option in options if option is not None and (option.category, option.type) == ("mode", "select")]
        if len(modes) != 1:
            raise AgentWireError(f"the agent has {len(modes)} settings of its mode, and its entry sets it to {mode}")
        request = SetConfigOption(session_id=session, config_id=modes[0].config_id, value=mode)
        return Request("session/set_config_option", sent(request))

    def prompt(self, session: str, words: str) -> Params:
        """See ``Dialect``."""
        return sent(TurnPrompt(session_id=session, prompt=[TextBlock(type="text", text=words)]))

    def end_of(self, answer: Params) -> TurnEnd | None:  # noqa: ARG002 - it has no content
        """See ``Dialect``."""
        return None

    def question(self, params: Params) -> CallReport:
        """See ``Dialect``. A subject of an unknown type, or none, is leave for something that is not known."""
        asked = Question.model_validate({name: params.get(name) for name in ("title", "subject")})
        subject = asked.subject or {}
        match subject.get("type"):
            case "tool_call":
                return self._call_report(ToolCall.model_validate(subject.get("toolCall")))
            case "command":
                command = CommandSubject.model_validate(subject)
                named = command.tool_call_id or _NO_CALL
                return CallReport(named, kind="execute", raw_input={"command": command.command}, runs=True)
            case _:
                return CallReport(_NO_CALL, title=asked.title, kind="other")

    def read(self, update: Params) -> Iterable[AgentUpdate]:
        """See ``Dialect``."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                chunk = MessageChunk.model_validate(update)
                yield MessagePart(_join_text([chunk.content]), chunk.message_id, chunk.meta)
            case "agent_message":
                whole = MessageUpsert.model_validate(update)
                if "content" in whole.model_fields_set:
                    yield WholeMessage(_join_text(whole.content or ()), whole.message_id)
            case "tool_call_update":
                yield self._call_report(ToolCall.model_validate(update))
            case "tool_call_content_chunk":
                more = CallContentChunk.model_validate(update)
                yield self._call_report(ToolCall(tool_call_id=more.tool_call_id, content=[more.content]))
            case "terminal_update":
                yield self._terminal(Terminal.model_validate(update))
            case "state_update":
                state = State.model_validate(update)
                if state.state == "running":
                    yield TurnBegun()
                elif state.state == "idle":
                    usage = state.usage or {}
                    tokens = tokens_of(usage.get("inputTokens"), usage.get("outputTokens"))
                    yield TurnEnd(state.stop_reason or "", tokens or self._rules.below(state.meta))

    def _terminal(self, terminal: Terminal) -> CallReport:
        """A terminal runs a command, of the call that shows it where there is one."""
        status = None if terminal.exit_status is None else terminal.exit_status.exit_code
        return CallReport(
            self._terminals.get(terminal.terminal_id[:200], f"{_NO_CALL} {terminal.terminal_id}"),
            status=None if terminal.exit_status is None else "completed",
            raw_input={"command": terminal.command} if terminal.command else None,
            raw_output=None if status is None else {"exitCode": status},
            runs=True,
            begins=None,
        )

    def _call_report(self, call: ToolCall) -> CallReport:
        content = [item for item in call.content or () if item is not None]
        for item in content:
            if item.type == "terminal" and item.terminal_id:
                self._terminals[item.terminal_id[:200]] = call.tool_call_id
                if len(self._terminals) > MAX_TERMINALS:
                    self._terminals.popitem(last=False)
        return CallReport(
            call.tool_call_id,
            title=call.title,
            kind=call.kind,
            status=call.status,
            raw_input=call.raw_input,
            raw_output=call.raw_output,
            differs=any(item.type == "diff" for item in content),
            runs=any(item.type == "terminal" for item in content),
            changed=tuple(_changed_paths(content)),
            places=tuple(place.path for place in call.locations or () if place is not None),
            begins=None,
        )


def _join_text(blocks: Sequence[TextBlock | None]) -> str:
    return "".join(block.text for block in blocks if block is not None and block.type == "text" and block.text)


def _changed_paths(content: Sequence[CallContent]) -> Iterable[str]:
    for item in content:
        for change in (item.changes or ()) if item.type == "diff" else ():
            if change is not None:
                yield from (path for path in (change.old_path, change.path) if path)
