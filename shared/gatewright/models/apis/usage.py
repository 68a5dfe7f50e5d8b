"""What a reply says that it used, in each API, and how much text there is in requests and replies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gatewright.models.policy import Api
from gatewright.models.prices import TokenUsage

#: More tokens than this in one call are a lie.
_MOST = 10**9
#: Values that are no words: ids, marks, and what is packed or encrypted, whose size says nothing of tokens.
_NO_WORDS = frozenset(
    [
        "id",
        "type",
        "role",
        "object",
        "status",
        "name",
        "model",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "item_id",
        "response_id",
        "signature",
        "thoughtSignature",
        "encrypted_content",
        "data",
        "image_url",
        "inlineData",
        "inline_data",
        "file_data",
        "media_type",
        "mimeType",
        "finish_reason",
        "stop_reason",
        "cache_control",
        "obfuscation",
        "system_fingerprint",
    ]
)


def usage_of(api: Api, document: Mapping[str, Any]) -> TokenUsage | None:
    """What a reply, or an event of a stream, says of the tokens of its call so far. None when it says nothing."""
    said: Mapping[str, Any] | None
    match api:
        case "responses":
            said = _object(_object(document, "response") or document, "usage")
            return None if said is None else _of_openai(said, "input_tokens", "output_tokens")
        case "chat_completions":
            said = _object(document, "usage")
            return None if said is None else _of_openai(said, "prompt_tokens", "completion_tokens")
        case "messages":
            said = _object(_object(document, "message") or document, "usage")
            return None if said is None else _of_messages(said)
        case "gemini":
            said = _object(document, "usageMetadata")
            return None if said is None else _of_gemini(said)


def greatest(first: TokenUsage | None, second: TokenUsage | None) -> TokenUsage | None:
    """Both counts as one: what a call used never shrinks, whatever a later event says."""
    if first is None or second is None:
        return first or second
    return TokenUsage(
        max(first.input, second.input),
        max(first.cached, second.cached),
        max(first.cache_written, second.cache_written),
        max(first.output, second.output),
    )


def text_bytes(value: object) -> int:
    """Bytes of all words in ``value``; what is no words (ids, images, encrypted parts) does not count."""
    return sum(len(words) if words.isascii() else len(words.encode("utf-8", "surrogatepass")) for words in _all_strings(value))


def written_bytes(api: Api, event: Mapping[str, Any]) -> int:
    """Bytes of words that an event of a stream adds to the reply."""
    return text_bytes(_added_text(api, event))


def written_text(events: Iterable[Mapping[str, Any]]) -> str:
    """The words of a stream of any API in one piece, as its client puts them together."""
    apis: tuple[Api, ...] = ("responses", "chat_completions", "messages", "gemini")
    parts = (part for event in events for part in (_added_text(api, event) for api in apis) if part is not None)
    return "".join(words for part in parts for words in _all_strings(part))


def reply_bytes(api: Api, reply: Mapping[str, Any]) -> int:
    """Bytes of words in a reply that came in one piece."""
    parts = {"responses": "output", "chat_completions": "choices", "messages": "content", "gemini": "candidates"}
    return text_bytes(reply.get(parts[api]))


def is_end(api: Api, event: Mapping[str, Any]) -> bool:
    """Whether an event of a stream says that the reply is whole."""
    match api:
        case "responses":
            return event.get("type") in ("response.completed", "response.incomplete", "response.failed")
        case "chat_completions":
            return any(isinstance(each, dict) and each.get("finish_reason") for each in _list(event.get("choices")))
        case "messages":
            return event.get("type") == "message_stop"
        case "gemini":
            return any(isinstance(each, dict) and each.get("finishReason") for each in _list(event.get("candidates")))


def _added_text(api: Api, event: Mapping[str, Any]) -> object:
    match api:
        case "responses":
            return event.get("delta") if str(event.get("type", "")).endswith(".delta") else None
        case "chat_completions":
            return event.get("choices")
        case "messages":
            return event.get("delta") if event.get("type") == "content_block_delta" else None
        case "gemini":
            return event.get("candidates")


def _all_strings(value: object) -> Iterator[str]:
    """All words in ``value``, in its order."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            pending += reversed(node)
        elif isinstance(node, dict):
            pending += [child for name, child in reversed(node.items()) if name not in _NO_WORDS]


def _of_openai(said: Mapping[str, Any], read: str, written: str) -> TokenUsage:
    details = _object(said, f"{read}_details") or {}
    whole = _count(said, read)
    return TokenUsage(whole, min(_count(details, "cached_tokens"), whole), 0, _count(said, written))


def _of_messages(said: Mapping[str, Any]) -> TokenUsage:
    """Here the parts from and to the cache are told beside the rest of the input, not as parts of it."""
    cached, stored = _count(said, "cache_read_input_tokens"), _count(said, "cache_creation_input_tokens")
    return TokenUsage(_count(said, "input_tokens") + cached + stored, cached, stored, _count(said, "output_tokens"))


def _of_gemini(said: Mapping[str, Any]) -> TokenUsage:
    whole = _count(said, "promptTokenCount") + _count(said, "toolUsePromptTokenCount")
    written = _count(said, "candidatesTokenCount") + _count(said, "thoughtsTokenCount")
    return TokenUsage(whole, min(_count(said, "cachedContentTokenCount"), whole), 0, written)


def _count(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else 0


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = document.get(name)
    return value if isinstance(value, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
