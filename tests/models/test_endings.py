"""Each vendor's way to say that a reply is not complete, and what no vendor says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gatewright.models.apis.endings import (
    NO_ENDING,
    REFUSAL,
    SEVERAL,
    TOOL_CALL,
    ending_of,
    ending_of_recorded,
    is_complete,
    refusal_words,
)
from gatewright.models.policy import Api


def chat(*choices: dict[str, Any]) -> dict[str, Any]:
    return {
        "choices": [{"index": number, "finish_reason": "stop", "message": {}} | each for number, each in enumerate(choices)]
    }


def response(status: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"status": status, "output": list(items), **more}


COMPLETE: list[tuple[Api, dict[str, Any]]] = [
    ("chat_completions", chat({})),
    ("messages", {"stop_reason": "end_turn"}),
    ("messages", {"stop_reason": "stop_sequence"}),
    ("responses", response("completed", {"type": "message", "status": "completed", "content": [{"type": "output_text"}]})),
    ("responses", response("completed", {"type": "reasoning"}, incomplete_details=None, error=None)),
    ("gemini", {"candidates": [{"index": 0, "finishReason": "STOP"}]}),
]
INCOMPLETE: list[tuple[Api, dict[str, Any], str]] = [
    ("chat_completions", chat({"finish_reason": "length"}), "length"),
    ("chat_completions", chat({"finish_reason": None}), NO_ENDING),
    ("chat_completions", chat({"finish_reason": ["stop"]}), NO_ENDING),
    ("chat_completions", chat({"finish_reason": "stop\n"}), NO_ENDING),
    ("chat_completions", chat({"message": {"refusal": "I cannot."}}), REFUSAL),
    ("chat_completions", chat({"message": {"tool_calls": [{}]}}), TOOL_CALL),
    ("chat_completions", chat({}, {}), SEVERAL),
    ("chat_completions", chat({}, {"finish_reason": "length"}), "length"),
    ("chat_completions", {}, NO_ENDING),
    ("chat_completions", {"choices": "stop"}, NO_ENDING),
    ("messages", {"stop_reason": "tool_use"}, "tool_use"),
    ("messages", {"stop_reason": "model_context_window_exceeded"}, "model_context_window_exceeded"),
    ("messages", {}, NO_ENDING),
    ("responses", response("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
    ("responses", response("failed", error={"code": "server_error"}), "server_error"),
    ("responses", response("cancelled"), "cancelled"),
    ("responses", response("in_progress"), "in_progress"),
    ("responses", response("completed", {"type": "message", "status": "incomplete"}), "incomplete"),
    ("responses", response("completed", {"type": "message", "content": [{"type": "refusal"}]}), REFUSAL),
    ("responses", response("completed", {"type": "function_call"}), TOOL_CALL),
    ("responses", {}, NO_ENDING),
    ("gemini", {"candidates": [{"finishReason": "SAFETY"}]}, "SAFETY"),
    ("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "PROHIBITED_CONTENT"),
    ("gemini", {"candidates": [5]}, NO_ENDING),
]


@pytest.mark.parametrize(
    ("api", "reply", "words"),
    [
        ("chat_completions", chat({"message": {"content": None, "refusal": "I cannot."}}), "I cannot."),
        ("responses", response("completed", {"content": [{"type": "refusal", "refusal": "I will not."}]}), "I will not."),
        ("messages", {"stop_reason": "refusal", "content": [{"type": "text", "text": "I may not."}]}, "I may not."),
        ("messages", {"stop_reason": "end_turn", "content": [{"type": "text", "text": "done"}]}, ""),
        ("chat_completions", chat({"message": {"refusal": ["x"]}}), ""),
        ("responses", {"output": [{"content": [3, None, {"refusal": {}}]}, "x"]}, ""),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, ""),
    ],
)
def test_the_words_of_a_refusal_are_found(api: Api, reply: dict[str, Any], words: str) -> None:
    assert refusal_words(api, reply) == words


@pytest.mark.parametrize(("api", "reply"), COMPLETE)
def test_a_reply_that_the_model_ended_is_complete(api: Api, reply: dict[str, Any]) -> None:
    assert is_complete(api, ending_of(api, reply))


@pytest.mark.parametrize(("api", "reply", "ending"), INCOMPLETE)
def test_every_other_reply_is_incomplete(api: Api, reply: dict[str, Any], ending: str) -> None:
    assert ending_of(api, reply) == ending
    assert not is_complete(api, ending)


@pytest.mark.parametrize(("api", "reply", "ending"), INCOMPLETE)
def test_a_recorded_reply_ends_as_it_did(api: Api, reply: dict[str, Any], ending: str) -> None:
    assert ending_of_recorded(api, json.dumps(reply, indent=1).encode(), streamed=False) == ending


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"data: [DONE]\n\n",
        b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n',
        b"\xff{",
        b"[1]",
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_recorded_reply_without_content_has_no_ending(data: bytes, streamed: bool) -> None:
    ending = ending_of_recorded("chat_completions", data, streamed=streamed)
    assert not is_complete("chat_completions", ending)


def test_a_stream_that_was_cut_once_is_not_complete_again() -> None:
    events = [chat({"finish_reason": "length"}), chat({"finish_reason": "stop"})]
    data = b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)
    assert ending_of_recorded("chat_completions", data, streamed=True) == "length"
