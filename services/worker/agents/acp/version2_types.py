"""Messages of version 2 of the Agent Client Protocol, a draft: the used part of its published schema.

Written from the schema with the digest ``SCHEMA_SHA256``; docs/agents.md has its source. As the schema requires, an invalid
field is treated as absent, and so is an item of a list, except where permission depends on it: an invalid kind is ``other``.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

SCHEMA_SHA256: Final = "36e8270fb12d4d067005cc02f729f5433930e6834ab4a72260838ee096d62378"


def _or_none(value: object, handler: ValidatorFunctionWrapHandler) -> object:
    try:
        return handler(value)
    except ValidationError:
        return None


def _a_kind(value: object) -> object:
    return value if value is None or isinstance(value, str) else "other"


_Lenient = WrapValidator(_or_none)
_Text = Annotated[str | None, _Lenient]
_Meta = Annotated[dict[str, Any] | None, _Lenient, Field(alias="_meta")]


class _Message(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, frozen=True)


class Implementor(_Message):
    """Who speaks: the worker, or the agent."""

    name: str
    version: str


class Initialize(_Message):
    """Params of ``initialize``: no capabilities."""

    protocol_version: StrictInt
    info: Implementor
    capabilities: dict[str, Any] = Field(default_factory=dict)


class Initialized(_Message):
    """Its result. ``session`` of the capabilities is there where the agent has sessions, and then it can resume them."""

    protocol_version: StrictInt
    info: Implementor
    capabilities: Annotated[dict[str, Any] | None, _Lenient] = None


class NewSession(_Message):
    """Params of ``session/new``."""

    cwd: str
    meta: _Meta = None


class ResumeSession(_Message):
    """Params of ``session/resume``, with its past replayed."""

    session_id: str
    cwd: str
    replay_from: dict[str, str] = Field(default_factory=lambda: {"type": "start"})
    meta: _Meta = None


class ConfigOption(_Message):
    """What can be set in a session, and of which category it is."""

    config_id: str
    type: str
    category: _Text = None


class SessionOpened(_Message):
    """The result of ``session/new`` and ``session/resume``."""

    session_id: str | None = None
    config_options: Annotated[list[Annotated[ConfigOption | None, _Lenient]] | None, _Lenient] = None


class SetConfigOption(_Message):
    """Params of ``session/set_config_option``."""

    session_id: str
    config_id: str
    value: str
    type: str = "id"


class TextBlock(_Message):
    """Text, or content of another type, which is not read."""

    type: str
    text: _Text = None


class TurnPrompt(_Message):
    """Params of ``session/prompt``."""

    session_id: str
    prompt: list[TextBlock]


class MessageChunk(_Message):
    """A part of a message, which is appended."""

    message_id: str
    content: TextBlock
    meta: _Meta = None


class MessageUpsert(_Message):
    """The current text of a message; absent content is unchanged."""

    message_id: str
    content: Annotated[list[Annotated[TextBlock | None, _Lenient]] | None, _Lenient] = None
    meta: _Meta = None


class State(_Message):
    """Of the agent: ``running``, ``idle`` with the reason for which it stopped, ``requires_action``.

    ``usage`` is of the schema's unstable part; agents may leave it out.
    """

    state: str
    stop_reason: _Text = None
    usage: Annotated[dict[str, Any] | None, _Lenient] = None
    meta: _Meta = None


class Change(_Message):
    """Of one file, in a diff."""

    path: _Text = None
    old_path: _Text = None


class CallContent(_Message):
    """What a call shows: content, a diff, or a terminal of the agent's."""

    type: str
    changes: Annotated[list[Annotated[Change | None, _Lenient]] | None, _Lenient] = None
    terminal_id: _Text = None


class CallLocation(_Message):
    """A file that a call deals with."""

    path: str


class ToolCall(_Message):
    """A tool call as far as it changed."""

    tool_call_id: str
    title: _Text = None
    kind: Annotated[str | None, BeforeValidator(_a_kind)] = None
    status: _Text = None
    content: Annotated[list[Annotated[CallContent | None, _Lenient]] | None, _Lenient] = None
    locations: Annotated[list[Annotated[CallLocation | None, _Lenient]] | None, _Lenient] = None
    raw_input: Any = None
    raw_output: Any = None


class CallContentChunk(_Message):
    """One more item of what a call shows."""

    tool_call_id: str
    content: CallContent


class ExitStatus(_Message):
    """How a terminal's program ended."""

    exit_code: Annotated[StrictInt | None, _Lenient] = None


class Terminal(_Message):
    """A terminal of the agent's as far as it changed."""

    terminal_id: str
    command: _Text = None
    exit_status: Annotated[ExitStatus | None, _Lenient] = None


class CommandSubject(_Message):
    """A command for which leave is asked."""

    command: str
    tool_call_id: _Text = None


class Question(_Message):
    """Params of ``session/request_permission``, as far as they describe the request."""

    title: _Text = None
    subject: dict[str, Any] | None = None
