"""The reason why a model's reply ended, as each API reports it, and whether the reply is complete. Pure.

The values are those of the vendors' references: ``finish_reason`` (chat completions), ``stop_reason`` (messages),
``status`` with ``incomplete_details`` (responses), ``finishReason`` (Gemini). A value that no reference lists is
incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gatewright.contracts.strict_json import parse
from gatewright.errors import MalformedError
from gatewright.foreign_documents import table_of
from gatewright.models.apis.event_stream import EventReader
from gatewright.models.apis.usage import is_end
from gatewright.models.policy import Api

#: The value with which each API reports that the model finished by itself.
_FINISHED: Final[Mapping[Api, frozenset[str]]] = {
    "chat_completions": frozenset({"stop"}),
    "messages": frozenset({"end_turn", "stop_sequence"}),
    "responses": frozenset({"completed"}),
    "gemini": frozenset({"STOP"}),
}
#: The model declined, in a separate part of the reply.
REFUSAL: Final = "refusal"
#: The reply has several alternatives, of which none is the answer, or calls a tool that no program runs.
SEVERAL: Final = "several_choices"
TOOL_CALL: Final = "tool_call"
#: The provider gave no reason.
NO_ENDING: Final = "none"
_LONGEST: Final = 64


def is_complete(api: Api, ending: str | None) -> bool:
    """Return whether a reply with this ending is the model's complete answer in text."""
    return ending in _FINISHED[api]


def ending_of(api: Api, reply: Mapping[str, Any]) -> str:
    """Why a reply that came in one piece ended."""
    return next((ending for ending in _endings(api, reply) if not is_complete(api, ending)), None) or next(
        _endings(api, reply), NO_ENDING
    )


def refusal_words(api: Api, reply: Mapping[str, Any]) -> str:
    """Return the model's text for declining to answer; empty if it does not decline, or gives none."""
    match api:
        case "chat_completions":
            choices = _dicts(reply.get("choices"))
            found = [table_of(choice.get("message")).get("refusal") for choice in choices]
        case "responses":
            found = [part.get("refusal") for item in _dicts(reply.get("output")) for part in _dicts(item.get("content"))]
        case "messages" if reply.get("stop_reason") == REFUSAL:
            found = [part.get("text") for part in _dicts(reply.get("content"))]
        case _:
            found = []
    return " ".join(words for words in found if isinstance(words, str))


def ending_in(api: Api, event: Mapping[str, Any]) -> str | None:
    """Return the ending in an event of a stream, if any; an incomplete ending takes precedence."""
    match api:
        case "messages" if event.get("type") == "message_delta":
            reason = table_of(event.get("delta")).get("stop_reason")
            return None if reason is None else _reason_text(reason)
        case "responses" if is_end(api, event):
            return ending_of(api, table_of(event.get("response")))
        case "chat_completions" | "gemini":
            found = [ending for ending in _endings(api, event) if ending != NO_ENDING]
            return next((ending for ending in found if not is_complete(api, ending)), next(iter(found), None))
        case _:
            return None


def ending_of_recorded(api: Api, data: bytes, *, streamed: bool) -> str | None:
    """Return the ending of a recorded reply; None without one."""
    if streamed:
        reader = EventReader(len(data) + 1)
        return later_ending(api, *(ending_in(api, event) for event in [*reader.feed(data), *reader.finish()]))
    try:
        document = parse(data)
    except MalformedError:
        return None
    return ending_of(api, document) if isinstance(document, dict) else None


def later_ending(api: Api, *endings: str | None) -> str | None:
    """Return the last ending of a stream's events, unless an earlier one was incomplete."""
    found: str | None = None
    for ending in endings:
        if ending is not None and (found is None or is_complete(api, found)):
            found = ending
    return found


def _endings(api: Api, reply: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ending of every alternative in a document."""
    match api:
        case "chat_completions":
            yield from _alternatives(reply.get("choices"), "finish_reason", "message")
        case "gemini":
            yield from _alternatives(reply.get("candidates"), "finishReason", "content")
            blocked = table_of(reply.get("promptFeedback")).get("blockReason")
            if blocked is not None:
                yield _reason_text(blocked)
        case "messages":
            yield _reason_text(reply.get("stop_reason"))
        case "responses":
            yield from _of_response(reply)


def _alternatives(value: object, field: str, content: str) -> Iterator[str]:
    choices = _dicts(value)
    for choice in choices:
        yield _reason_text(choice.get(field))
        message = table_of(choice.get(content))
        if message.get("refusal"):
            yield REFUSAL
        if message.get("tool_calls") or message.get("function_call"):
            yield TOOL_CALL
    if len({choice.get("index") for choice in choices if isinstance(choice.get("index"), int)}) > 1:
        yield SEVERAL


def _of_response(reply: Mapping[str, Any]) -> Iterator[str]:
    why = table_of(reply.get("incomplete_details")).get("reason") or table_of(reply.get("error")).get("code")
    yield _reason_text(reply.get("status")) if why is None else _reason_text(why)
    for found in _dicts(reply.get("output")):
        if found.get("status") in ("incomplete", "failed"):
            yield _reason_text(found["status"])
        if str(found.get("type", "")).endswith("_call"):
            yield TOOL_CALL
        if any(part.get("type") == "refusal" for part in _dicts(found.get("content"))):
            yield REFUSAL


def _dicts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _reason_text(value: object) -> str:
    """Return a reason in the record's own alphabet: a provider's text is not passed on unchanged."""
    if not isinstance(value, str) or not value:
        return NO_ENDING
    return value[:_LONGEST] if value.replace("_", "").isalnum() and value.isascii() else NO_ENDING
