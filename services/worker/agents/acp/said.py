"""What a conversation needs of a version of the protocol, and what agents say in the words of none of them.

A version reads the agent's messages into these records and writes ours; the order of a conversation, every bound and every
decision are the same for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ValidationError

from gatewright.services.worker.agents.acp.rules import Tokens
from gatewright.services.worker.agents.telling import quote_text

Params = Mapping[str, object]
Meta = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class CallReport:
    """What is said of a tool call, which may have been said of before: None and nothing leave what is known.

    ``changed`` are the files of its diffs, ``differs`` whether it has any; ``begins`` whether this is its first word,
    None where only its id tells.
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
    """A message as it reads now, whatever was said of it before."""

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


Said = CallReport | MessagePart | WholeMessage | TurnBegun | TurnEnd


@dataclass(frozen=True, slots=True)
class AgentStanding:
    """What an agent says of itself: whether it takes up sessions, and its own version."""

    resumes: bool
    claimed: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request of ours."""

    method: str
    params: Params


class Dialect(Protocol):
    """One version of the protocol. What an agent says wrongly raises ValidationError or AgentWireError."""

    def initialize(self) -> Params:
        """The first request: this version, and nothing offered."""

    def standing(self, answer: Params) -> AgentStanding:
        """Of the answer to it."""

    def begin(self, directory: str, meta: Meta) -> Request:
        """For a new session."""

    def resume(self, session: str, directory: str, meta: Meta) -> Request:
        """For one that is to go on, with its past told again."""

    def session_of(self, answer: Params) -> str:
        """The id of a new session."""

    def set_mode(self, session: str, mode: str, opened: Params) -> Request:
        """For another mode, after the answer ``opened`` to the session's beginning."""

    def prompt(self, session: str, words: str) -> Params:
        """A turn's prompt."""

    def end_of(self, answer: Params) -> TurnEnd | None:
        """How the turn ended by the answer to its prompt; None where that only accepts it."""

    def question(self, params: Params) -> CallReport:
        """What leave is asked for."""

    def read(self, update: Params) -> Iterable[Said]:
        """An update of the session."""


def sent(message: BaseModel) -> dict[str, object]:
    """A message as it goes over the wire."""
    return message.model_dump(mode="json", by_alias=True, exclude_none=True)


def fault_of(fault: ValidationError) -> str:
    """What is wrong with a message, and where."""
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    return quote_text(f"{'.'.join(map(str, first['loc']))[:200]}: {first['msg']}")
