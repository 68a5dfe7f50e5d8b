"""The usage that a reply reports, in each API, and the amount of text in requests and replies. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gatewright.models.policy import Api
from gatewright.models.prices import TokenUsage

#: A higher token count in one call is not credible.
_MOST = 10**9
#: Values that are not text: ids, marks, and packed or encrypted data, whose size is unrelated to tokens.
_NO_WORDS = frozenset(
    [
        *("id", "type", "role", "object", "status", "name", "model", "call_id", "tool_call_id", "tool_use_id", "item_id"),
        *("response_id", "signature", "thoughtSignature", "encrypted_content", "data", "image_url", "inlineData"),
        *("inline_data", "file_data", "media_type", "mimeType", "finish_reason", "stop_reason", "cache_control"),
        *("obfuscation", "system_fingerprint"),
    ]
)


def usage_of(api: Api, document: Mapping[str, Any]) -> TokenUsage | None:
    """Return the token usage in a reply, or in an event of a stream so far. None without one."""
    usage: Mapping[str, Any] | None
    match api:
        case "responses":
            usage = _object(_object(document, "response") or document, "usage")
            return None if usage is None else _of_openai(usage, "input_tokens", "output_tokens")
        case "chat_completions":
            usage = _object(document, "usage")
            return None if usage is None else _of_openai(usage, "prompt_tokens", "completion_tokens")
        case "messages":
            usage = _object(_object(document, "message") or document, "usage")
            return None if usage is None else _of_messages(usage)
        case "gemini":
            usage = _object(document, "usageMetadata")
            return None if usage is None else _of_gemini(usage)


def greatest(first: TokenUsage | None, second: TokenUsage | None) -> TokenUsage | None:
    """Combine both counts: usage never decreases, even if a later event has a lower count."""
    if first is None or second is None:
        return first or second
    return TokenUsage(
        max(first.input, second.input),
        max(first.cached, second.cached),
        max(first.cache_written, second.cache_written),
        max(first.output, second.output),
    )


def text_bytes(value: object) -> int:
    """Return the bytes of all text in ``value``; ids, images and encrypted parts are excluded."""
    return sum(len(words) if words.isascii() else len(words.encode("utf-8", "surrogatepass")) for words in _all_strings(value))


def written_bytes(api: Api, event: Mapping[str, Any]) -> int:
    """Return the bytes of text that an event of a stream adds to the reply."""
    return text_bytes(_added_text(api, event))


def written_text(events: Iterable[Mapping[str, Any]]) -> str:
    """Return the joined text of a stream of any API, as its client assembles it."""
    apis: tuple[Api, ...] = ("responses", "chat_completions", "messages", "gemini")
    parts = (part for event in events for part in (_added_text(api, event) for api in apis) if part is not None)
    return "".join(words for part in parts for words in _all_strings(part))


def reply_bytes(api: Api, reply: Mapping[str, Any]) -> int:
    """Return the bytes of text in a reply without streaming."""
    parts = {"responses": "output", "chat_completions": "choices", "messages": "content", "gemini": "candidates"}
    return text_bytes(reply.get(parts[api]))


def is_end(api: Api, event: Mapping[str, Any]) -> bool:
    """Return whether an event of a stream marks the reply as complete."""
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
    """Yield all text in ``value``, in order."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            pending += reversed(node)
        elif isinstance(node, dict):
            pending += [child for name, child in reversed(node.items()) if name not in _NO_WORDS]


def _of_openai(usage: Mapping[str, Any], read: str, written: str) -> TokenUsage:
    details = _object(usage, f"{read}_details") or {}
    whole = _count(usage, read)
    return TokenUsage(whole, min(_count(details, "cached_tokens"), whole), 0, _count(usage, written))


def _of_messages(usage: Mapping[str, Any]) -> TokenUsage:
    """Return the usage; here cached tokens are counted separately from the other input."""
    cached, stored = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    return TokenUsage(_count(usage, "input_tokens") + cached + stored, cached, stored, _count(usage, "output_tokens"))


def _of_gemini(usage: Mapping[str, Any]) -> TokenUsage:
    whole = _count(usage, "promptTokenCount") + _count(usage, "toolUsePromptTokenCount")
    written = _count(usage, "candidatesTokenCount") + _count(usage, "thoughtsTokenCount")
    return TokenUsage(whole, min(_count(usage, "cachedContentTokenCount"), whole), 0, written)


def _count(usage: Mapping[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else 0


def _object(document: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = document.get(name)
    return value if isinstance(value, dict) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
