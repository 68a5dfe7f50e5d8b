"""The canonical form of a request: what two runs of the same work send alike. Everything else in a request counts, to the byte.

Left out or replaced is what differs from run to run without meaning anything; the list below is all of it (docs/models.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gatewright.models.apis.requests import ModelRequest
from gatewright.models.policy import Api
from gatewright.patterns import TextPattern

#: Top-level fields that carry a session's or a user's id.
_SESSIONS: Mapping[Api, frozenset[str]] = {
    "responses": frozenset({"prompt_cache_key", "metadata", "client_metadata", "user", "safety_identifier"}),
    "chat_completions": frozenset({"prompt_cache_key", "metadata", "user", "safety_identifier"}),
    "messages": frozenset({"metadata"}),
    "gemini": frozenset({"labels", "session_id", "user_prompt_id"}),
}
#: Parts of a conversation whose ``id`` the client makes of the time of day.
_NUMBERED = frozenset({"functionCall", "functionResponse"})
#: Texts inside of the strings of a request, each with what stands for it. A pattern is tried only where its first words occur.
_VOLATILE: tuple[tuple[str, TextPattern, str], ...] = tuple(
    (words, TextPattern(pattern), instead)
    for words, pattern, instead in (
        ("-", r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>"),
        ("<current_date>", r"<current_date>[^<]*</current_date>", "<current_date/>"),
        ("<timezone>", r"<timezone>[^<]*</timezone>", "<timezone/>"),
        ("<cwd>", r"<cwd>[^<]*</cwd>", "<cwd/>"),
        ("oday", r"([Tt]oday's date|[Tt]oday is)(?: is)?:?[^\n]*", r"\1 <date>"),
        ("orking directory:", r"((?:W|w)orking directory:)[^\n]*", r"\1 <cwd>"),
        ("OS Version:", r"OS Version:[^\n]*", "OS Version: <system>"),
        ("perating system is:", r"(operating system is:)[^\n]*", r"\1 <system>"),
        ("Wall time:", r"Wall time: [0-9.]+ seconds?", "Wall time: <seconds>"),
        ("Process Group PGID:", r"Process Group PGID: [0-9]+", "Process Group PGID: <id>"),
        ("Chunk ID:", r"Chunk ID: [0-9a-f]+", "Chunk ID: <id>"),
        ("x-anthropic-billing-header:", r"x-anthropic-billing-header:[^\n]*", "x-anthropic-billing-header: <client>"),
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
        "body": {name: _plain(value, literals) for name, value in request.body.items() if name not in left_out},
    }
    return json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _plain(value: Any, literals: list[tuple[str, str]]) -> Any:
    match value:
        case str():
            return _plain_text(value, literals)
        case list():
            return [_plain(each, literals) for each in value]
        case dict():
            return {name: _plain(_without_id(name, each), literals) for name, each in value.items()}
        case _:
            return value


def _without_id(name: str, value: Any) -> Any:
    if name not in _NUMBERED or not isinstance(value, dict):
        return value
    return {key: each for key, each in value.items() if key != "id"}


def _plain_text(text: str, literals: list[tuple[str, str]]) -> str:
    for literal, instead in literals:
        text = text.replace(literal, instead)
    for words, pattern, instead in _VOLATILE:
        if words in text:
            text = pattern.replaced(text, instead)
    return text
