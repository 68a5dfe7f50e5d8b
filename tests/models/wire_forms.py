"""The four APIs as a provider speaks them: the step of a transcript, the offered tools, a turn as a reply or a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tests.models.turns import Call, SaidUsage, Say, as_text

Api = Literal["responses", "chat_completions", "messages", "gemini"]
Body = dict[str, Any]


def api_of(path: str) -> Api | None:
    """The API of a request, by the end of its path."""
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/chat/completions"):
        return "chat_completions"
    if path.endswith(("/messages", "/messages/count_tokens")):
        return "messages"
    return "gemini" if "/models/" in path and ":" in path else None


#: Qwen Code opens every transcript with this answer, which no model gave.
_PRIMING = "Got it. Thanks for the context!"


def step_of(api: Api, body: Body) -> int:
    """How many turns of the model the transcript holds."""
    match api:
        case "responses":
            items = body.get("input") if isinstance(body.get("input"), list) else []
            calls = {str(i.get("call_id")).rpartition("_")[0] for i in items or [] if str(i.get("type")).endswith("_call")}
            return len(calls) + sum(1 for item in items or [] if item.get("role") == "assistant")
        case "chat_completions" | "messages":
            said = [message for message in body.get("messages", []) if message.get("role") == "assistant"]
            return sum(1 for message in said if not str(message.get("content")).startswith(_PRIMING))
        case "gemini":
            return sum(1 for content in body.get("contents", []) if content.get("role") == "model")


def offered_tools(api: Api, body: Body) -> dict[str, str]:
    """Name and kind (``function`` or ``custom``) of each tool that the client offers."""
    found: dict[str, str] = {}
    for tool in body.get("tools") or []:
        match api:
            case "responses":
                found[tool.get("name", tool.get("type", ""))] = tool.get("type", "function")
            case "chat_completions":
                found[tool["function"]["name"]] = "function"
            case "messages":
                found[tool["name"]] = "function"
            case "gemini":
                for declared in tool.get("functionDeclarations", []):
                    found[declared["name"]] = "function"
    return found


def usage_for(api: Api, body: Body, said: str, given: SaidUsage | None) -> SaidUsage:
    """An honest count: four bytes a token; or what the turn says."""
    return given or (len(json.dumps(body)) // 4, 0, -(-len(said) // 4))


def reply(api: Api, turn: Say | Call, step: int, body: Body) -> Body:
    """A turn as a reply in one piece."""
    said = turn.text if isinstance(turn, Say) else as_text(turn.arguments)
    usage = usage_for(api, body, said, turn.usage)
    match api:
        case "responses":
            return _response(turn, step, body, usage)
        case "chat_completions":
            message: Body = {"role": "assistant", "content": turn.text if isinstance(turn, Say) else None}
            if isinstance(turn, Call):
                function = {"name": turn.name, "arguments": as_text(turn.arguments)}
                message["tool_calls"] = [{"id": f"call_{step}_0", "type": "function", "function": function}]
            reason = _ending(turn, "stop", "tool_calls")
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return _head_of_chat(step, body) | {"object": "chat.completion", "choices": [choice], "usage": _chat_usage(usage)}
        case "messages":
            reason = _ending(turn, "end_turn", "tool_use")
            return _head_of_message(step, body) | {
                "content": [_block(turn, step)],
                "stop_reason": reason,
                "usage": _message_usage(usage) | {"output_tokens": usage[2]},
            }
        case "gemini":
            return _candidate(turn, _ending(turn, "STOP", "STOP")) | {"usageMetadata": _gemini_usage(usage)}


def stream(api: Api, turn: Say | Call, step: int, body: Body) -> Iterator[bytes]:
    """A turn as server-sent events."""
    said = turn.text if isinstance(turn, Say) else as_text(turn.arguments)
    usage = usage_for(api, body, said, turn.usage)
    pieces = _pieces(said, turn.pieces if isinstance(turn, Say) else 2)
    match api:
        case "responses":
            yield from _stream_of_responses(turn, step, body, usage, pieces)
        case "chat_completions":
            yield from _stream_of_chat(turn, step, body, usage, pieces)
        case "messages":
            yield from _stream_of_messages(turn, step, body, usage, pieces)
        case "gemini":
            if isinstance(turn, Call):
                yield _event(_candidate(turn, "STOP") | {"usageMetadata": _gemini_usage(usage)})
                return
            for piece in pieces:
                yield _event(_candidate(Say(piece), None))
            yield _event(_candidate(Say(""), _ending(turn, "STOP", "STOP")) | {"usageMetadata": _gemini_usage(usage)})


def endless(api: Api, word: str) -> Iterator[bytes]:
    """The beginning of a stream that never ends, and then a word again and again."""
    if api == "messages":
        yield _event(
            {"type": "message_start", "message": _head_of_message(0, {}) | {"content": [], "usage": {"input_tokens": 10}}}
        )
        yield _event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    elif api == "responses":
        yield _event({"type": "response.created", "response": {"id": "resp_0", "status": "in_progress", "output": []}})
    while True:
        match api:
            case "responses":
                yield _event({"type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0, "delta": word})
            case "chat_completions":
                yield _event(_head_of_chat(0, {}) | {"choices": [{"index": 0, "delta": {"content": word}}]})
            case "messages":
                yield _event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}})
            case "gemini":
                yield _event(_candidate(Say(word), None))


def _stream_of_responses(turn: Say | Call, step: int, body: Body, usage: SaidUsage, pieces: list[str]) -> Iterator[bytes]:
    done = _response(turn, step, body, usage)
    item = done["output"][0]
    started = done | {"status": "in_progress", "output": [], "usage": None}
    yield _event({"type": "response.created", "response": started})
    blank: Body = {"content": []} if isinstance(turn, Say) else {"input": ""} if "input" in item else {"arguments": ""}
    empty = item | blank
    yield _event({"type": "response.output_item.added", "output_index": 0, "item": empty | {"status": "in_progress"}})
    place = {"item_id": item["id"], "output_index": 0}
    if isinstance(turn, Say):
        part = {"type": "output_text", "text": "", "annotations": []}
        yield _event({"type": "response.content_part.added", **place, "content_index": 0, "part": part})
        for piece in pieces:
            yield _event({"type": "response.output_text.delta", **place, "content_index": 0, "delta": piece})
        yield _event({"type": "response.output_text.done", **place, "content_index": 0, "text": turn.text})
        yield _event({"type": "response.content_part.done", **place, "content_index": 0, "part": part | {"text": turn.text}})
    else:
        kind = "custom_tool_call_input" if "input" in item else "function_call_arguments"
        for piece in pieces:
            yield _event({"type": f"response.{kind}.delta", **place, "delta": piece})
    yield _event({"type": "response.output_item.done", "output_index": 0, "item": item})
    yield _event({"type": f"response.{done['status']}", "response": done})


def _stream_of_chat(turn: Say | Call, step: int, body: Body, usage: SaidUsage, pieces: list[str]) -> Iterator[bytes]:
    head = _head_of_chat(step, body) | {"object": "chat.completion.chunk"}
    for number, piece in enumerate(pieces):
        delta: Body = {"role": "assistant"} if number == 0 else {}
        if isinstance(turn, Say):
            delta["content"] = piece
        else:
            call: Body = {"index": 0, "function": {"arguments": piece}}
            if number == 0:
                call |= {"id": f"call_{step}_0", "type": "function"}
                call["function"]["name"] = turn.name
            delta["tool_calls"] = [call]
        yield _event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = _ending(turn, "stop", "tool_calls")
    yield _event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (body.get("stream_options") or {}).get("include_usage"):
        yield _event(head | {"choices": [], "usage": _chat_usage(usage)})
    yield b"data: [DONE]\n\n"


def _stream_of_messages(turn: Say | Call, step: int, body: Body, usage: SaidUsage, pieces: list[str]) -> Iterator[bytes]:
    message = _head_of_message(step, body) | {"content": [], "usage": _message_usage(usage) | {"output_tokens": 1}}
    yield _named_event({"type": "message_start", "message": message})
    block = _block(turn, step)
    blank: Body = {"text": ""} if isinstance(turn, Say) else {"input": {}}
    empty = block | blank
    yield _named_event({"type": "content_block_start", "index": 0, "content_block": empty})
    for piece in pieces:
        kind = (
            {"type": "text_delta", "text": piece}
            if isinstance(turn, Say)
            else {"type": "input_json_delta", "partial_json": piece}
        )
        yield _named_event({"type": "content_block_delta", "index": 0, "delta": kind})
    yield _named_event({"type": "content_block_stop", "index": 0})
    reason = _ending(turn, "end_turn", "tool_use")
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield _named_event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage[2]}})
    yield _named_event({"type": "message_stop"})


def _response(turn: Say | Call, step: int, body: Body, usage: SaidUsage) -> Body:
    item: Body
    if isinstance(turn, Say):
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        item = {"type": "message", "id": f"msg_{step}", "role": "assistant", "status": "completed", "content": content}
        if turn.ending:
            item["status"] = "incomplete"
    elif isinstance(turn.arguments, str):
        item = {
            "type": "custom_tool_call",
            "id": f"ctc_{step}",
            "call_id": f"call_{step}_0",
            "name": turn.name,
            "input": turn.arguments,
        }
    else:
        arguments = as_text(turn.arguments)
        item = {
            "type": "function_call",
            "id": f"fc_{step}",
            "call_id": f"call_{step}_0",
            "name": turn.name,
            "arguments": arguments,
            **({"namespace": turn.namespace} if turn.namespace else {}),
        }
        item["status"] = "completed"
    ending = turn.ending if isinstance(turn, Say) else None
    status = "incomplete" if ending else "completed"
    return {
        "id": f"resp_{step}",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "incomplete_details": None if status == "completed" else {"reason": ending},
        "model": body.get("model", "scripted"),
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": usage[0],
            "input_tokens_details": {"cached_tokens": usage[1]},
            "output_tokens": usage[2],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage[0] + usage[2],
        },
    }


def _ending(turn: Say | Call, said: str, called: str) -> str:
    return (turn.ending or said) if isinstance(turn, Say) else called


def _block(turn: Say | Call, step: int) -> Body:
    if isinstance(turn, Say):
        return {"type": "text", "text": turn.text}
    return {"type": "tool_use", "id": f"toolu_{step}_0", "name": turn.name, "input": turn.arguments}


def _candidate(turn: Say | Call, reason: str | None) -> Body:
    part: Body = {"text": turn.text} if isinstance(turn, Say) else {"functionCall": {"name": turn.name, "args": turn.arguments}}
    candidate: Body = {"index": 0, "content": {"role": "model", "parts": [part]}}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "scripted"}


def _head_of_chat(step: int, body: Body) -> Body:
    return {
        "id": f"chatcmpl-{step}",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": body.get("model", "scripted"),
    }


def _head_of_message(step: int, body: Body) -> Body:
    return {
        "id": f"msg_{step}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "scripted"),
        "stop_reason": None,
        "stop_sequence": None,
    }


def _chat_usage(usage: SaidUsage) -> Body:
    return {
        "prompt_tokens": usage[0],
        "prompt_tokens_details": {"cached_tokens": usage[1]},
        "completion_tokens": usage[2],
        "total_tokens": usage[0] + usage[2],
    }


def _message_usage(usage: SaidUsage) -> Body:
    return {"input_tokens": usage[0] - usage[1], "cache_read_input_tokens": usage[1], "cache_creation_input_tokens": 0}


def _gemini_usage(usage: SaidUsage) -> Body:
    return {
        "promptTokenCount": usage[0],
        "cachedContentTokenCount": usage[1],
        "candidatesTokenCount": usage[2],
        "totalTokenCount": usage[0] + usage[2],
    }


def _pieces(text: str, count: int) -> list[str]:
    size = max(-(-len(text) // count), 1)
    return [text[start : start + size] for start in range(0, len(text), size)] or [""]


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def _named_event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\n".encode() + _event(data)
