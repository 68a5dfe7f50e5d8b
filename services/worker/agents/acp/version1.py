"""Version 1 of the Agent Client Protocol, by the types of its official library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from acp.schema import (
    AgentCapabilities,
    AgentMessageChunk,
    ClientCapabilities,
    FileSystemCapabilities,
    HttpMcpServer,
    Implementation,
    InitializeRequest,
    InitializeResponse,
    LoadSessionRequest,
    McpCapabilities,
    NewSessionRequest,
    NewSessionResponse,
    PromptRequest,
    PromptResponse,
    SetSessionModeRequest,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
)

from gatewright.services.worker.agents.acp.dialect import (
    AgentStanding,
    AgentUpdate,
    CallReport,
    MessagePart,
    Params,
    Request,
    SessionPlace,
    TurnEnd,
    sent,
)
from gatewright.services.worker.agents.acp.rules import SessionRules
from gatewright.version import __version__

VERSION: Final = 1


class FirstVersion:
    """A ``Dialect``. The answer to a prompt ends its turn."""

    def __init__(self, rules: SessionRules) -> None:
        self._rules = rules

    def initialize(self) -> Params:
        """See ``Dialect``."""
        files = FileSystemCapabilities(read_text_file=False, write_text_file=False)
        request = InitializeRequest(
            protocol_version=VERSION,
            client_capabilities=ClientCapabilities(fs=files, terminal=False),
            client_info=Implementation(name="gatewright", version=__version__),
        )
        return sent(request)

    def standing(self, answer: Params) -> AgentStanding:
        """See ``Dialect``."""
        response = InitializeResponse.model_validate(answer)
        claimed = response.agent_info.version if response.agent_info else ""
        # The library puts a dictionary where the agent sent something else than capabilities.
        able = response.agent_capabilities
        if not isinstance(able, AgentCapabilities):
            return AgentStanding(resumes=False, claimed=claimed)
        by_http = isinstance(able.mcp_capabilities, McpCapabilities) and able.mcp_capabilities.http is True
        return AgentStanding(able.load_session is True, claimed, by_http)

    def begin(self, place: SessionPlace) -> Request:
        """See ``Dialect``."""
        return Request("session/new", sent(NewSessionRequest(**_given(place))))

    def resume(self, session: str, place: SessionPlace) -> Request:
        """See ``Dialect``."""
        return Request("session/load", sent(LoadSessionRequest(session_id=session, **_given(place))))

    def session_of(self, answer: Params) -> str:
        """See ``Dialect``."""
        return NewSessionResponse.model_validate(answer).session_id

    def set_mode(self, session: str, mode: str, opened: Params) -> Request:  # noqa: ARG002 - a later version needs it
        """See ``Dialect``."""
        return Request("session/set_mode", sent(SetSessionModeRequest(session_id=session, mode_id=mode)))

    def prompt(self, session: str, words: str) -> Params:
        """See ``Dialect``."""
        return sent(PromptRequest(session_id=session, prompt=[TextContentBlock(type="text", text=words)]))

    def end_of(self, answer: Params) -> TurnEnd | None:
        """See ``Dialect``."""
        response = PromptResponse.model_validate(answer)
        return TurnEnd(response.stop_reason, self._rules.usage(response))

    def question(self, params: Params) -> CallReport:
        """See ``Dialect``."""
        return _call_report(ToolCallUpdate.model_validate(params.get("toolCall")))

    def read(self, update: Params) -> Iterable[AgentUpdate]:
        """See ``Dialect``."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                chunk = AgentMessageChunk.model_validate(update)
                text = chunk.content.text if isinstance(chunk.content, TextContentBlock) else ""
                yield MessagePart(text, meta=chunk.field_meta)
            case "tool_call":
                yield _call_report(ToolCallStart.model_validate(update), begins=True)
            case "tool_call_update":
                yield _call_report(ToolCallProgress.model_validate(update))


def _given(place: SessionPlace) -> dict[str, Any]:
    servers = [HttpMcpServer(type="http", name=name, url=url, headers=[]) for name, url in place.servers.items()]
    return {"cwd": place.directory, "mcp_servers": servers, "field_meta": None if place.meta is None else dict(place.meta)}


def _call_report(call: ToolCallUpdate | ToolCallStart | ToolCallProgress, *, begins: bool = False) -> CallReport:
    changed = tuple(item.path for item in call.content or () if item.type == "diff")
    return CallReport(
        name=call.tool_call_id,
        title=call.title,
        kind=call.kind,
        status=call.status,
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        differs=bool(changed),
        changed=changed,
        places=tuple(place.path for place in call.locations or ()),
        begins=begins,
    )
