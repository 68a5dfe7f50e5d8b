"""What a request may hold: nothing that the provider would fetch, run, keep or search. The rest goes on as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gatewright.models.apis.endpoints import endpoint_of
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from tests.models.calls import QUICK, ask, make_gateway, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say
from tests.models.wire_forms import Api

SERVER_TOOLS: list[tuple[Api, dict[str, Any]]] = [
    ("responses", {"type": "web_search"}),
    ("responses", {"type": "web_search_preview_2025_03_11"}),
    ("responses", {"type": "code_interpreter", "container": {"type": "auto"}}),
    ("responses", {"type": "file_search", "vector_store_ids": ["vs_1"]}),
    ("responses", {"type": "computer_use_preview"}),
    ("responses", {"type": "image_generation"}),
    ("responses", {"type": "mcp", "server_label": "x", "server_url": "https://mcp.example"}),
    ("responses", {"type": "shell", "environment": {"type": "container_auto"}}),
    ("responses", {"type": "namespace", "name": "x", "tools": [{"type": "web_search"}]}),
    ("chat_completions", {"type": "web_search"}),
    ("messages", {"type": "web_search_20250305", "name": "web_search"}),
    ("messages", {"type": "web_fetch_20250910", "name": "web_fetch"}),
    ("messages", {"type": "code_execution_20250825", "name": "code_execution"}),
    ("messages", {"type": "computer_20250124", "name": "computer"}),
    ("messages", {"type": "mcp_toolset", "mcp_server_name": "x"}),
    ("messages", {"type": "bash_20250124x", "name": "bash"}),
    ("gemini", {"googleSearch": {}}),
    ("gemini", {"google_search": {}}),
    ("gemini", {"urlContext": {}}),
    ("gemini", {"codeExecution": {}}),
    ("gemini", {"fileSearch": {"fileSearchStoreNames": ["x"]}}),
    ("gemini", {"functionDeclarations": [], "googleSearchRetrieval": {}}),
]


@pytest.mark.parametrize(("api", "tool"), SERVER_TOOLS, ids=lambda part: str(part)[:40])
async def test_a_tool_that_the_provider_would_run_is_refused(
    provider: ScriptedProvider, api: Api, tool: dict[str, Any]
) -> None:
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of(api, tools=[tool]))
    assert got.status == 400
    assert gateway.records.calls[0].refused == "model_tool_not_allowed"
    assert provider.requests == []


CLIENT_TOOLS: list[tuple[Api, dict[str, Any]]] = [
    ("responses", {"type": "function", "name": "f", "parameters": {"properties": {"file_id": {"type": "string"}}}}),
    ("responses", {"type": "custom", "name": "apply_patch"}),
    ("responses", {"type": "local_shell"}),
    ("responses", {"type": "shell", "environment": {"type": "local"}}),
    ("responses", {"type": "namespace", "name": "x", "tools": [{"type": "function", "name": "f"}]}),
    ("chat_completions", {"type": "function", "function": {"name": "f"}}),
    ("messages", {"name": "Bash", "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}}}),
    ("messages", {"type": "bash_20250124", "name": "bash"}),
    ("messages", {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}),
    ("gemini", {"functionDeclarations": [{"name": "f"}]}),
]


@pytest.mark.parametrize(("api", "tool"), CLIENT_TOOLS, ids=lambda part: str(part)[:40])
async def test_a_tool_that_the_client_runs_goes_on(provider: ScriptedProvider, api: Api, tool: dict[str, Any]) -> None:
    provider.scripts["say"] = [Say("fine")]
    got = await ask(make_gateway(provider), *request_of(api, tools=[tool]))
    assert got.status == 200, got.text
    assert provider.requests[0].json["tools"] == [tool]


async def test_a_policy_may_let_a_tool_of_the_provider_through(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("found it")]
    policy = provider.policy("say")
    policy["providers"][0]["server_tools"] = ["web_search"]
    loaded = ModelsPolicy.model_validate(policy)
    gateway = ModelGateway(loaded, loaded.grant("worker"), limits=QUICK)
    assert (await ask(gateway, *request_of("responses", tools=[{"type": "web_search"}]))).status == 200
    assert (await ask(gateway, *request_of("responses", tools=[{"type": "file_search"}]))).status == 400


FIELDS: list[tuple[Api, dict[str, Any]]] = [
    ("responses", {"background": True}),
    ("responses", {"previous_response_id": "resp_1"}),
    ("responses", {"conversation": "conv_1"}),
    ("responses", {"prompt": {"id": "pmpt_1"}}),
    ("chat_completions", {"web_search_options": {"search_context_size": "low"}}),
    ("chat_completions", {"plugins": [{"id": "web"}]}),
    ("chat_completions", {"search_parameters": {"mode": "on"}}),
    ("messages", {"mcp_servers": [{"type": "url", "url": "https://mcp.example"}]}),
    ("messages", {"container": "container_1"}),
    ("gemini", {"cachedContent": "cachedContents/1"}),
]


@pytest.mark.parametrize(("api", "fields"), FIELDS, ids=lambda part: str(part)[:40])
async def test_a_field_that_gives_the_provider_more_to_do_is_refused(
    provider: ScriptedProvider, api: Api, fields: dict[str, Any]
) -> None:
    gateway = make_gateway(provider)
    assert (await ask(gateway, *request_of(api, **fields))).status == 400
    assert gateway.records.calls[0].refused == "model_field_not_allowed"
    assert provider.requests == []


def user(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(parts)}]


CONTENT: list[tuple[Api, dict[str, Any]]] = [
    ("responses", {"input": user({"type": "input_image", "image_url": "https://evil.example/a.png"})}),
    ("responses", {"input": user({"type": "input_image", "file_id": "file_1"})}),
    ("responses", {"input": user({"type": "input_file", "file_url": "https://evil.example/a.pdf"})}),
    ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    ("responses", {"input": [{"type": "function_call_output", "output": [{"type": "input_image", "image_url": "http://a"}]}]}),
    ("chat_completions", {"messages": user({"type": "image_url", "image_url": {"url": "https://evil.example/a.png"}})}),
    ("chat_completions", {"messages": user({"type": "file", "file": {"file_id": "file_1"}})}),
    ("messages", {"messages": user({"type": "image", "source": {"type": "url", "url": "https://evil.example/a.png"}})}),
    ("messages", {"messages": user({"type": "document", "source": {"type": "file", "file_id": "file_1"}})}),
    (
        "messages",
        {"messages": user({"type": "image", "source": {"type": "url", "media_type": "image/png", "url": "https://a"}})},
    ),
    ("messages", {"messages": user({"type": "container_upload", "file_id": "file_1"})}),
    ("messages", {"system": [{"type": "document", "source": {"type": "url", "url": "https://evil.example"}}]}),
    ("gemini", {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": "https://evil.example/a"}}]}]}),
    ("gemini", {"contents": [{"role": "user", "parts": [{"file_data": {"file_uri": "gs://bucket/a"}}]}]}),
]


@pytest.mark.parametrize(("api", "fields"), CONTENT, ids=lambda part: str(part)[:60])
async def test_content_that_the_provider_would_fetch_is_refused(
    provider: ScriptedProvider, api: Api, fields: dict[str, Any]
) -> None:
    gateway = make_gateway(provider)
    assert (await ask(gateway, *request_of(api, **fields))).status == 400
    assert gateway.records.calls[0].refused == "model_content_not_allowed"
    assert provider.requests == []


PLAIN: list[tuple[Api, dict[str, Any]]] = [
    ("responses", {"input": user({"type": "input_image", "image_url": "data:image/png;base64,AA=="})}),
    ("responses", {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"file_id": "x"}'}]}),
    ("chat_completions", {"messages": user({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})}),
    (
        "messages",
        {"messages": user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}})},
    ),
    (
        "messages",
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "x"}}]}
            ]
        },
    ),
    ("gemini", {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"file_uri": "x"}}}]}]}),
]


@pytest.mark.parametrize(("api", "fields"), PLAIN, ids=lambda part: str(part)[:60])
async def test_content_that_is_there_goes_on(provider: ScriptedProvider, api: Api, fields: dict[str, Any]) -> None:
    provider.scripts["say"] = [Say("fine")]
    got = await ask(make_gateway(provider), *request_of(api, **fields))
    assert got.status == 200, got.text
    sent = provider.requests[0].json
    assert {name: sent[name] for name in fields} == fields


async def test_an_unknown_field_is_left_out_and_recorded(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("messages", service_tier="priority", of_next_year={"x": 1}))
    assert got.status == 200
    assert not {"service_tier", "of_next_year"} & provider.requests[0].json.keys()
    assert gateway.records.calls[0].dropped == ("of_next_year", "service_tier")


async def test_nothing_is_stored_at_the_provider_and_streams_report_usage(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of("responses", store=True))
    await ask(gateway, *request_of("chat_completions", streamed=True, store=True, stream_options={"include_usage": False}))
    assert [seen.json["store"] for seen in provider.requests] == [False, False]
    assert provider.requests[1].json["stream_options"] == {"include_usage": True}


async def test_a_model_has_its_own_name_at_its_provider(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    policy = provider.policy("say")
    for model in policy["models"]:
        model["upstream"] = "secret-preview"
    loaded = ModelsPolicy.model_validate(policy)
    gateway = ModelGateway(loaded, loaded.grant("worker"), limits=QUICK)
    await ask(gateway, *request_of("messages"))
    await ask(gateway, *request_of("gemini"))
    assert provider.requests[0].json["model"] == "secret-preview"
    assert provider.requests[1].path == "/s/say/v1beta/models/secret-preview:generateContent"
    path, body = request_of("messages", model="secret-preview")
    assert (await ask(gateway, path, body)).status == 404


async def test_betas_that_let_the_provider_reach_further_are_left_out(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    betas = "claude-code-20250219,mcp-client-2025-04-04,code-execution-2025-05-22,files-api-2025-04-14,context-1m-2025-08-07"
    headers = {"anthropic-beta": betas, "anthropic-version": "2023-06-01", "X-Other": "1"}
    await ask(make_gateway(provider), *request_of("messages"), headers)
    assert provider.requests[0].header("anthropic-beta") == "claude-code-20250219,context-1m-2025-08-07"
    assert provider.requests[0].header("X-Other") is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": 5},
        {"model": "scripted", "stream": "yes"},
        {"model": "scripted", "tools": {}},
        {"model": "scripted", "tools": [1]},
    ],
    ids=json.dumps,
)
async def test_a_request_that_is_none_is_refused(provider: ScriptedProvider, body: dict[str, Any]) -> None:
    gateway = make_gateway(provider)
    assert (await ask(gateway, "/v1/responses", body)).status == 400
    assert gateway.records.calls[0].refused == "model_request_invalid"


def test_a_stream_of_gemini_is_one_of_events_only() -> None:
    path = "/v1beta/models/m:streamGenerateContent"
    assert endpoint_of("POST", path) is None
    assert endpoint_of("POST", f"{path}?alt=json") is None
    assert endpoint_of("POST", f"{path}?key=x&alt=sse") is not None
