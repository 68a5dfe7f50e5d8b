"""Interface of a protocol version, and the agents' messages in version-independent form.

A version parses the agent's messages into these records and writes the outgoing ones; the order of a conversation, every bound
and every decision are the same for all versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from gatewright.services.worker.agents.acp.rules import Tokens
from gatewright.services.worker.agents.reporter import quote_text

Params = Mapping[str, object]
Meta = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class CallReport:
    """Report about a tool call, possibly a known one: None and empty fields keep earlier values.

    ``changed`` are the files of its diffs, ``differs`` whether it has any; ``begins`` whether this is its first report, None
    where only its id shows that.
    """

    name: str
    title: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: object = None
    raw_output: object = None
    differs: bool = False
    runs: bool = False
    changed: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    begins: bool | None = False


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A part of a message of the agent; ``message`` is its id, where there is one."""

    text: str
    message: str = ""
    meta: Meta = None


@dataclass(frozen=True, slots=True)
class WholeMessage:
    """The complete current text of a message, replacing earlier text."""

    text: str
    message: str


@dataclass(frozen=True, slots=True)
class TurnBegun:
    """The agent works on the prompt."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """Why a turn ended, by the agent's word; empty where it gives none. ``tokens`` as it counts them."""

    reason: str
    tokens: Tokens | None = None


AgentUpdate = CallReport | MessagePart | WholeMessage | TurnBegun | TurnEnd


@dataclass(frozen=True, slots=True)
class AgentStanding:
    """An agent's capabilities: whether it resumes sessions, its own version, and whether it uses tool servers by HTTP."""

    resumes: bool
    claimed: str
    uses_servers: bool = False


@dataclass(frozen=True, slots=True)
class SessionPlace:
    """Where a session works. ``servers``: address of each tool server, by name."""

    directory: str
    meta: Meta
    servers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """A request of ours."""

    method: str
    params: Params


class Dialect(Protocol):
    """One version of the protocol. Invalid messages raise ValidationError or AgentWireError."""

    def initialize(self) -> Params:
        """The first request: this version, and nothing offered."""

    def standing(self, answer: Params) -> AgentStanding:
        """Of the answer to it."""

    def begin(self, place: SessionPlace) -> Request:
        """For a new session."""

    def resume(self, session: str, place: SessionPlace) -> Request:
        """Return the request to resume a session and replay its past."""

    def session_of(self, answer: Params) -> str:
        """The id of a new session."""

    def set_mode(self, session: str, mode: str, opened: Params) -> Request:
        """For another mode, after the answer ``opened`` to the session's beginning."""

    def prompt(self, session: str, words: str) -> Params:
        """A turn's prompt."""

    def end_of(self, answer: Params) -> TurnEnd | None:
        """Return the end of the turn in the answer to its prompt; None where that only accepts it."""

    def question(self, params: Params) -> CallReport:
        """Return what the permission is for."""

    def read(self, update: Params) -> Iterable[AgentUpdate]:
        """An update of the session."""


def sent(message: BaseModel) -> dict[str, object]:
    """A message as it goes over the wire."""
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)


def fault_of(fault: ValidationError) -> str:
    """Return the fault of a message, with its place."""
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    return quote_text(f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}")
