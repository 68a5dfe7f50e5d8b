"""The gateway passes calls on, in each API, plain and streamed; counts them, and leaves a record of each."""

from __future__ import annotations

import json

import pytest

from tests.models.calls import APIS, ask, make_gateway, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Call, Say, Shell
from tests.models.wire_forms import Api


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_a_call_is_answered_counted_and_recorded(provider: ScriptedProvider, api: Api, streamed: bool) -> None:
    provider.scripts["say"] = [Say("good morning", usage=(100, 40, 7), pieces=1)]
    gateway = make_gateway(provider, prices={"input": 1.0, "cached_input": 0.5, "output": 10.0})
    got = await ask(gateway, *request_of(api, streamed=streamed))
    assert got.status == 200, got.text
    assert got.headers["Content-Type"] == ("text/event-stream" if streamed else "application/json")
    assert "good morning" in got.text
    call = gateway.records.calls[0]
    assert (call.input_tokens, call.cached_tokens, call.output_tokens) == (100, 40, 7)
    assert call.cost_usd == pytest.approx((60 + 40 * 0.5 + 70) / 1e6)
    assert (call.status, call.whole, call.refused, call.usage_doubted) == (200, True, None, False)
    assert (gateway.usage.tokens, gateway.usage.iterations) == (107, 1)
    assert json.loads(gateway.records.as_jsonl())["request_sha256"] == call.request_sha256


@pytest.mark.parametrize("api", APIS)
async def test_the_provider_gets_its_key_and_nothing_of_the_clients_own(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Say("yes")]
    own = {"Authorization": "Bearer of-the-agent", "x-api-key": "of-the-agent", "x-goog-api-key": "of-the-agent"}
    path, body = request_of(api)
    got = await ask(
        make_gateway(provider), path + ("&" if "?" in path else "?") + "key=of-the-agent", body, own | {"Cookie": "a=b"}
    )
    assert got.status == 200
    seen = provider.requests[0]
    assert "of-the-agent" not in f"{seen.headers}{seen.path}"
    assert sum(KEY in value for _, value in seen.headers) == 1
    assert seen.header("Cookie") is None
    assert seen.header("Host") == f"127.0.0.1:{provider.port}"


@pytest.mark.parametrize("api", ["messages", "gemini"])
async def test_counting_tokens_costs_no_turn(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Say("yes")]
    path, body = request_of(api)
    path = path.replace("/messages", "/messages/count_tokens").replace(":generateContent", ":countTokens")
    gateway = make_gateway(provider)
    got = await ask(gateway, path, body)
    assert got.status == 200
    assert "okens" in got.text
    assert (gateway.usage.tokens, gateway.usage.iterations) == (0, 0)
    assert gateway.records.calls[0].whole


async def test_permitted_models_are_listed_without_asking_a_provider(provider: ScriptedProvider) -> None:
    gateway = make_gateway(provider)
    async with gateway.client() as client, client.get("/v1/models") as reply:
        names = [each["id"] for each in (await reply.json())["data"]]
    assert names == ["scripted", "scripted-claude", "scripted-gemini"]
    assert provider.requests == []


@pytest.mark.parametrize("api", APIS)
async def test_the_result_of_a_client_tool_continues_the_conversation(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Shell("make test"), Say("all done")]
    tool = {"name": "bash", "description": "runs", "parameters": {"type": "object"}}
    tools = {
        "responses": [{"type": "function", **tool}],
        "chat_completions": [{"type": "function", "function": tool}],
        "messages": [{"name": "bash", "input_schema": {"type": "object"}}],
        "gemini": [{"functionDeclarations": [tool]}],
    }
    gateway = make_gateway(provider)
    path, body = request_of(api, tools=tools[api])
    first = await ask(gateway, path, body)
    assert "make test" in first.text
    said = json.loads(first.text)
    match api:
        case "responses":
            output = {"type": "function_call_output", "call_id": said["output"][0]["call_id"], "output": "ok"}
            body["input"] += [*said["output"], output]
        case "chat_completions":
            message = said["choices"][0]["message"]
            body["messages"] += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "ok"}]
        case "messages":
            result = {"type": "tool_result", "tool_use_id": said["content"][0]["id"], "content": "ok"}
            body["messages"] += [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": [result]}]
        case "gemini":
            answer = {"functionResponse": {"name": "bash", "response": {"output": "ok", "file_uri": "https://no.example"}}}
            body["contents"] += [said["candidates"][0]["content"], {"role": "user", "parts": [answer]}]
    assert "all done" in (await ask(gateway, path, body)).text


async def test_a_call_for_a_tool_reaches_the_client_unchanged_in_a_stream(provider: ScriptedProvider) -> None:
    patch = "*** Begin Patch\n*** Add File: a.py\n+one\n*** End Patch"
    provider.scripts["say"] = [Call("apply_patch", patch)]
    path, body = request_of("responses", streamed=True, tools=[{"type": "custom", "name": "apply_patch"}])
    got = await ask(make_gateway(provider), path, body)
    events = [json.loads(line[6:]) for line in got.text.splitlines() if line.startswith("data: ")]
    assert events[-1]["response"]["output"][0]["input"] == patch
    assert events[0]["type"] == "response.created"
