"""The canonical form of a request: the part that two runs of the same work send alike. All of it is compared byte by byte.

Values that differ from run to run without meaning are removed or replaced; the lists here and in ``measured`` are complete
(docs/models.md). Text of a person or a prompt is never replaced, except for an agent's statement of day and host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gatewright.models.apis.requests import ModelRequest
from gatewright.models.cassettes.measured import UUID, without_measures
from gatewright.models.policy import Api
from gatewright.patterns import TextPattern

#: Top-level fields that carry a session's or a user's id.
_SESSIONS: Mapping[Api, frozenset[str]] = {
    "responses": frozenset({"prompt_cache_key", "metadata", "client_metadata", "user", "safety_identifier"}),
    "chat_completions": frozenset({"prompt_cache_key", "metadata", "user", "safety_identifier"}),
    "messages": frozenset({"metadata"}),
    "gemini": frozenset({"labels", "session_id", "user_prompt_id"}),
}
#: Parts of a conversation whose ``id`` the client derives from the time of day.
_NUMBERED = frozenset({"functionCall", "functionResponse"})
_UUID_LETTERS = 36
_LONGEST_ID = 60
#: The form of an id: a UUID, with the client's prefix.
_ID = TextPattern(rf"[a-z]{{0,16}}[_-]?{UUID}")
#: The forms of a date.
_DAY = (
    r"(?:[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}|[0-9]{1,2} [A-Z][a-z]{2,8} [0-9]{4}"
    r"|(?:[A-Z][a-z]{2,8},? )?[A-Z][a-z]{2,8} [0-9]{1,2},? [0-9]{4})"
)
#: Agents' statements of day and host in any text, with replacements; only in the form that they use. A
#: pattern is tried only where its first words occur.
_VOLATILE: tuple[tuple[str, TextPattern, str], ...] = tuple(
    (words, TextPattern(pattern), instead)
    for words, pattern, instead in (
        ("<current_date>", r"<current_date>[0-9-]{8,10}</current_date>", "<current_date/>"),
        ("<timezone>", r"<timezone>[A-Za-z0-9_+/-]{1,64}</timezone>", "<timezone/>"),
        ("oday", rf"([Tt]oday's date|[Tt]oday is)((?: is)?:?) {_DAY}", r"\1\2 <date>"),
        ("OS Version:", r"OS Version: Linux [0-9][^ \n]{0,100}", "OS Version: <system>"),
        ("x-anthropic-billing-header:", r"^x-anthropic-billing-header:[^\n]*", "x-anthropic-billing-header: <client>"),
    )
)


def canonical_request(request: ModelRequest, paths: Mapping[str, str]) -> bytes:
    """The canonical form of a request for a model (as it was asked for), as one line of JSON.

    ``paths`` are literal texts of this run with the word that stands for each. Runs long for megabytes: use a thread.
    """
    literals = sorted(paths.items(), key=lambda pair: -len(pair[0]))
    api = request.endpoint.api
    left_out = _SESSIONS[api] | {"model", "stream"}
    whole = {
        "api": api,
        "action": request.endpoint.action,
        "model": request.model,
        "stream": request.stream,
        "body": {name: _canonical_value(value, literals) for name, value in request.body.items() if name not in left_out},
    }
    return json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _canonical_value(value: Any, literals: list[tuple[str, str]], *, printed: bool = False) -> Any:
    """``printed``: it is what a tool gave back."""
    match value:
        case str():
            return _plain_text(value, literals, printed=printed)
        case list():
            return [_canonical_value(each, literals, printed=printed) for each in value]
        case dict():
            printed = printed or _is_printed(value)
            return {
                name: _canonical_value(_without_id(name, each), literals, printed=printed or name == "functionResponse")
                for name, each in value.items()
            }
        case _:
            return value


def _is_printed(part: dict[str, Any]) -> bool:
    """Whether a part of a conversation is what a tool gave back, in the form of one of the APIs."""
    kind = part.get("type")
    return part.get("role") == "tool" or kind == "tool_result" or (isinstance(kind, str) and kind.endswith("_output"))


def _without_id(name: str, value: Any) -> Any:
    if name not in _NUMBERED or not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key != "id"}


def _plain_text(text: str, literals: list[tuple[str, str]], *, printed: bool) -> str:
    for literal, instead in literals:
        text = text.replace(literal, instead)
    if printed:
        return without_measures(text)
    if len(text) < _LONGEST_ID and "-" in text and _ID.fullmatch(text) is not None:
        return f"{text[:-_UUID_LETTERS]}<uuid>"
    for words, pattern, instead in _VOLATILE:
        if words in text:
            text = pattern.replaced(text, instead)
    return text
