"""An odd value at any place of a request or a reply is refused or counted as nothing, and never a defect of the gateway."""

from __future__ import annotations

import json

import pytest

from gatewright.errors import DeniedError, MalformedError
from gatewright.models.apis.endings import ending_in, ending_of
from gatewright.models.apis.endpoints import endpoint_of
from gatewright.models.apis.requests import address_request, admit, read_request
from gatewright.models.apis.usage import greatest, is_end, reply_bytes, usage_of, written_bytes
from gatewright.models.cassettes import canonical_request
from gatewright.models.policy import Provider
from tests.models.calls import APIS, request_of
from tests.models.turns import Call, Say
from tests.models.wire_forms import Api, reply, stream
from tests.odd_values import ODD, Message, variants

TURNS = (Say("hello", usage=(3, 1, 2)), Call("tool", {"command": "ls"}), Say("cut", ending="length"))


def documents(api: Api) -> list[Message]:
    """A reply of each kind in one piece, and the events of it as a stream."""
    found: list[Message] = []
    for turn in TURNS:
        found.append(reply(api, turn, 1, {}))
        lines = b"".join(stream(api, turn, 1, {})).splitlines()
        found += [json.loads(line[5:]) for line in lines if line.startswith(b"data:") and line != b"data: [DONE]"]
    return found


PARTS = [
    {"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
    {"type": "tool_use", "id": "u", "name": "tool", "input": {"url": "https://example.org"}},
    {"type": "tool_result", "tool_use_id": "u", "content": [{"type": "text", "text": "x"}]},
]
FUNCTION = {"type": "function", "name": "tool", "function": {"name": "tool", "parameters": {"type": "object"}}}
TOOLS: dict[Api, list[Message]] = {
    "responses": [FUNCTION, {"type": "namespace", "name": "n", "tools": [{"type": "custom", "name": "x"}]}],
    "chat_completions": [FUNCTION],
    "messages": [{"name": "tool", "input_schema": {"type": "object"}}],
    "gemini": [{"functionDeclarations": [{"name": "tool"}]}],
}


@pytest.mark.parametrize("api", APIS)
def test_a_request_is_refused_or_admitted_whatever_it_holds(api: Api) -> None:
    served = {"base_url": "http://127.0.0.1:1/v1", "key": {"environment": "KEY"}}
    provider = Provider.model_validate({**served, "name": "p", "apis": [api]})
    path, body = request_of(
        api, streamed=True, tools=TOOLS[api], stream_options={"include_usage": True}, metadata={"user_id": "u"}
    )
    endpoint = endpoint_of("POST", path)
    assert endpoint is not None
    conversation = next(value for name, value in body.items() if name in {"input", "messages", "contents"})
    conversation.append({"role": "user", "content": PARTS, "parts": PARTS})
    admitted = 0
    for odd in variants(body, ODD):
        try:
            request = admit(read_request(endpoint, odd), provider)
        except (MalformedError, DeniedError):
            continue
        canonical_request(request, {})
        address_request(request, "upstream")
        admitted += 1
    assert admitted > len(ODD)


@pytest.mark.parametrize("api", APIS)
def test_a_reply_is_read_whatever_it_holds(api: Api) -> None:
    count = 0
    for document in documents(api):
        for odd in variants(document, ODD):
            if not isinstance(odd, dict):
                continue
            used = greatest(usage_of(api, odd), usage_of(api, document))
            assert used is None or min(used.input, used.cached, used.output) >= 0
            assert min(reply_bytes(api, odd), written_bytes(api, odd)) >= 0
            assert is_end(api, odd) in {True, False}
            assert isinstance(ending_of(api, odd), str)
            assert isinstance(ending_in(api, odd), str | None)
            count += 1
    assert count > 100 * len(ODD)
