"""The APIs of models as the scripted model speaks them: OpenAI's two, Anthropic's Messages, Google's generateContent.

No more of each than agents need. ``read_request`` and ``answer`` are pure; an answer is a document, or the events of a stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gatewright.services.worker.agents.probe.script import AgentRequest, Call, Reply, Tool

Api = Literal["responses", "chat_completions", "messages", "gemini"]
#: Tokens of every reply, by which an agent's own count is compared.
INPUT_TOKENS: Final = 100
OUTPUT_TOKENS: Final = 10
_CREATED: Final = 1_700_000_000

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """``document`` for a request without a stream, ``events`` (name, data) for one with."""

    document: Document
    events: tuple[tuple[str | None, Document], ...]
    done: bool = False

    def stream(self) -> bytes:
        """The events as server-sent ones."""
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data, separators=(',', ':'))}\n\n"
            for name, data in self.events
        ]
        return "".join([*lines, *(["data: [DONE]\n\n"] if self.done else [])]).encode()


def api_of(path: str) -> Api | None:
    """The API that a path belongs to, None for one of none."""
    if path.endswith("/chat/completions"):
        return "chat_completions"
    if path.endswith("/responses"):
        return "responses"
    if path.endswith("/messages"):
        return "messages"
    return "gemini" if path.endswith((":generateContent", ":streamGenerateContent")) else None


def read_request(api: Api, path: str, body: Mapping[str, Any]) -> AgentRequest:
    """Return the content of a request. Fields that do not conform to the API are treated as absent."""
    tools = tuple(_tools(api, _list(body.get("tools"))))
    if api == "gemini":
        model, _, method = path.rsplit("/", 1)[-1].partition(":")
        parts = [part for turn in _list(body.get("contents")) for part in _list(turn.get("parts"))]
        return AgentRequest(model, method.startswith("stream"), sum("functionCall" in part for part in parts), tools)
    if api == "responses":
        calls = sum(str(item.get("type")).endswith("_call") for item in _list(body.get("input")))
    elif api == "messages":
        blocks = [block for turn in _list(body.get("messages")) for block in _list(turn.get("content"))]
        calls = sum(block.get("type") == "tool_use" for block in blocks)
    else:
        calls = sum(len(_list(turn.get("tool_calls"))) for turn in _list(body.get("messages")))
    return AgentRequest(str(body.get("model")), body.get("stream") is True, calls, tools)


def answer(api: Api, asked: AgentRequest, reply: Reply, number: int) -> ScriptedReply:
    """Return ``reply`` in the form of the API. ``number`` makes the ids of one conversation different."""
    return _ANSWERS[api](asked, reply, f"{number:06d}")


def _tools(api: Api, given: Iterable[Document]) -> Iterable[Tool]:
    for tool in given:
        if api == "gemini":
            for each in _list(tool.get("functionDeclarations")):
                yield Tool(str(each.get("name")), each.get("parametersJsonSchema") or each.get("parameters") or {})
        elif api == "messages":
            yield Tool(str(tool.get("name")), tool.get("input_schema") or {})
        elif api == "responses":
            yield Tool(str(tool.get("name")), tool.get("parameters") or {}, free=tool.get("type") == "custom")
        else:
            function = tool.get("function") or {}
            yield Tool(str(function.get("name")), function.get("parameters") or {})


def _chat(asked: AgentRequest, reply: Reply, number: str) -> ScriptedReply:
    head = {"id": f"chatcmpl-{number}", "created": _CREATED, "model": asked.model}
    usage = {"prompt_tokens": INPUT_TOKENS, "completion_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}
    if isinstance(reply, Call):
        function = {"name": reply.tool.name, "arguments": json.dumps(reply.arguments)}
        calls = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        message: Document = {"role": "assistant", "content": None, "tool_calls": calls}
    else:
        message = {"role": "assistant", "content": reply}
    reason = "tool_calls" if isinstance(reply, Call) else "stop"
    chunk = {**head, "object": "chat.completion.chunk"}
    events: tuple[tuple[str | None, Document], ...] = (
        (None, {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        (None, {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}),
        (None, {**chunk, "choices": [], "usage": usage}),
    )
    whole = {**head, "object": "chat.completion", "usage": usage}
    return ScriptedReply({**whole, "choices": [{"index": 0, "message": message, "finish_reason": reason}]}, events, done=True)


def _messages(asked: AgentRequest, reply: Reply, number: str) -> ScriptedReply:
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": asked.model, "stop_sequence": None}
    if isinstance(reply, Call):
        block: Document = {"type": "tool_use", "id": f"toolu_{number}", "name": reply.tool.name, "input": reply.arguments}
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.arguments)}
    else:
        block, start = {"type": "text", "text": reply}, {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": reply}
    reason = "tool_use" if isinstance(reply, Call) else "end_turn"
    begun: Document = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Document] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return ScriptedReply({**head, "content": [block], "stop_reason": reason, "usage": usage}, _named_events(events))


def _responses(asked: AgentRequest, reply: Reply, number: str) -> ScriptedReply:
    usage = {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS, "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS}
    head = {"id": f"resp_{number}", "object": "response", "created_at": _CREATED, "model": asked.model}
    item: Document
    if not isinstance(reply, Call):
        text = {"type": "output_text", "text": reply, "annotations": []}
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": [text]}
    elif isinstance(reply.arguments, str):
        item = {"type": "custom_tool_call", "id": f"ctc_{number}", "input": reply.arguments}
    else:
        item = {"type": "function_call", "id": f"fc_{number}", "arguments": json.dumps(reply.arguments)}
    if isinstance(reply, Call):
        item |= {"call_id": f"call_{number}", "name": reply.tool.name, "status": "completed"}
    whole = {**head, "status": "completed", "output": [item], "usage": usage}
    events: list[Document] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return ScriptedReply(whole, _named_events({**event, "sequence_number": place} for place, event in enumerate(events)))


def _gemini(asked: AgentRequest, reply: Reply, number: str) -> ScriptedReply:
    if isinstance(reply, Call):
        part: Document = {"functionCall": {"id": f"call_{number}", "name": reply.tool.name, "args": reply.arguments}}
    else:
        part = {"text": reply}
    usage = {
        "promptTokenCount": INPUT_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS,
    }
    content = {"role": "model", "parts": [part]}
    document = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": usage,
        "modelVersion": asked.model,
        "responseId": f"r{number}",
    }
    return ScriptedReply(document, ((None, document),))


_ANSWERS: Final[Mapping[Api, Callable[[AgentRequest, Reply, str], ScriptedReply]]] = {
    "chat_completions": _chat,
    "messages": _messages,
    "responses": _responses,
    "gemini": _gemini,
}


def _named_events(events: Iterable[Document]) -> tuple[tuple[str | None, Document], ...]:
    return tuple((event["type"], event) for event in events)


def _list(found: object) -> list[Document]:
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
