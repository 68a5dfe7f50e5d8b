"""The gateway passes calls through, in each API, plain and streamed, and leaves a record of each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Budget
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": ("/v1/responses", {"model": "scripted", "input": "hello"}),
    "chat_completions": ("/v1/chat/completions", {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}),
    "messages": (
        "/v1/messages?beta=true",
        {"model": "scripted-claude", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]},
    ),
    "gemini": (
        "/v1beta/models/scripted-gemini:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
    ),
}


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    with ScriptedProvider({"say": [Say("good morning", usage=(100, 40, 7), pieces=1)]}) as running:
        yield running


def make_gateway(provider: ScriptedProvider, script: str = "say", budget: Budget | None = None) -> ModelGateway:
    policy = ModelsPolicy.model_validate(provider.policy(script))
    return ModelGateway(policy, policy.grant("worker", budget=budget))


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", REQUESTS)
async def test_a_call_is_answered_counted_and_recorded(provider: ScriptedProvider, api: str, streamed: bool) -> None:
    path, body = REQUESTS[api]
    if streamed:
        path, body = path.replace(":generateContent", ":streamGenerateContent?alt=sse"), {**body, "stream": True}
        if api == "gemini":
            del body["stream"]
    gateway = make_gateway(provider)
    async with gateway.client() as client, client.post(path, json=body) as reply:
        text = await reply.text()
        assert reply.status == 200, text
        assert reply.content_type == ("text/event-stream" if streamed else "application/json")
    assert "morning" in text
    call = gateway.records.calls[0]
    assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (100, 40, 7)
    assert (call.status, call.whole, call.refused, call.usage_doubted) == (200, True, None, False)
    assert (gateway.usage.tokens, gateway.usage.iterations) == (107, 1)
    assert json.loads(gateway.records.as_jsonl())["request_sha256"] == call.request_sha256
    assert KEY in str(provider.requests[0].headers)
    assert KEY not in text
