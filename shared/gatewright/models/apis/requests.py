"""Admitted requests: known fields, tools that the client runs itself, nothing that the provider would fetch or keep.

An unknown field is removed, and recorded; a field that makes the provider do more than reply is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gatewright.errors import DeniedError, MalformedError
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.policy import Api, Provider

#: Top-level fields that are sent on.
FIELDS: Mapping[Api, frozenset[str]] = {
    "responses": frozenset(
        [
            *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
            *("temperature", "top_p", "top_logprobs", "max_output_tokens", "max_tool_calls", "stream", "stream_options"),
            *("store", "include", "truncation", "prompt_cache_key", "prompt_cache_retention", "metadata", "user"),
            "safety_identifier",
        ]
    ),
    "chat_completions": frozenset(
        [
            *("model", "messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
            *("temperature", "top_p", "top_k", "min_p", "n", "stream", "stream_options", "max_tokens"),
            *("max_completion_tokens", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias"),
            *("logprobs", "top_logprobs", "response_format", "seed", "user", "reasoning_effort", "reasoning", "thinking"),
            *("enable_thinking", "verbosity", "metadata", "store", "prediction", "modalities", "prompt_cache_key"),
            "safety_identifier",
        ]
    ),
    "messages": frozenset(
        [
            *("model", "messages", "system", "max_tokens", "stop_sequences", "stream", "temperature", "top_k", "top_p"),
            *("tools", "tool_choice", "thinking", "metadata", "output_config", "output_format", "context_management"),
        ]
    ),
    "gemini": frozenset(
        [
            *("contents", "systemInstruction", "system_instruction", "tools", "toolConfig", "tool_config"),
            *("generationConfig", "generation_config", "safetySettings", "safety_settings", "generateContentRequest"),
        ]
    ),
}
#: Fields that ask the provider to search, run, keep or fetch; refused unless their value disables that.
REFUSED_FIELDS = frozenset(
    [
        *("background", "previous_response_id", "conversation", "prompt", "mcp_servers", "container", "web_search_options"),
        *("plugins", "search_parameters", "cachedContent", "cached_content", "audio"),
    ]
)
#: Types of tools that the client runs itself.
_TOOLS: Mapping[Api, re.Pattern[str]] = {
    "responses": re.compile("function|custom|local_shell|shell|apply_patch|namespace"),  # noqa: TID251 - words
    "chat_completions": re.compile("function|custom"),  # noqa: TID251 - words
    "messages": re.compile(r"custom|(?:bash|text_editor|memory)_\d{1,8}"),  # noqa: TID251 - words
    "gemini": re.compile("functionDeclarations|function_declarations"),  # noqa: TID251 - words
}
#: Fields with a tool's own content, in which the provider does not interpret names.
_OPAQUE = frozenset(
    {"args", "response", "arguments", "parameters", "input_schema", "schema", "json_schema", "parametersJsonSchema"}
)
_FETCHED = frozenset({"file_url", "file_id", "fileUri", "file_uri"})
#: Parts of a conversation that are only known to the provider that kept them.
_KEPT = frozenset({"item_reference"})


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request as the gateway understood it. ``body`` is what may be sent on; ``dropped`` fields are not in it any more."""

    endpoint: Endpoint
    model: str
    stream: bool
    body: Mapping[str, Any]
    dropped: tuple[str, ...]


def read_request(endpoint: Endpoint, body: object) -> ModelRequest:
    """Return the request in ``body``. Raises MalformedError (``model_request_invalid``)."""
    if not isinstance(body, dict):
        raise MalformedError("the body of a request is a JSON object", code="model_request_invalid")
    model = body.get("model") if endpoint.model is None else endpoint.model
    if not isinstance(model, str) or not model:
        raise MalformedError("the request names no model", code="model_request_invalid")
    stream = body.get("stream", False) if endpoint.stream is None else endpoint.stream
    if not isinstance(stream, bool):
        raise MalformedError("`stream` is true or false", code="model_request_invalid")
    return ModelRequest(endpoint, model, stream, body, ())


def admit(request: ModelRequest, provider: Provider) -> ModelRequest:
    """Return ``request`` in the form that may be sent to ``provider``. Raises DeniedError, MalformedError.

    ``store`` is forced off, and a stream of chat completions must report its usage.
    """
    api = request.endpoint.api
    if api == "gemini" and isinstance(inner := request.body.get("generateContentRequest"), dict):
        _check_request(api, inner, provider)
    _check_request(api, request.body, provider)
    known = FIELDS[api] | set(provider.fields)
    body = {name: value for name, value in request.body.items() if name in known}
    dropped = tuple(sorted(name for name in request.body if name not in known and len(name) <= 64)[:32])
    if api == "responses" or body.get("store") is not None:
        body["store"] = False
    if api == "chat_completions" and request.stream:
        options = body.get("stream_options")
        body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return ModelRequest(request.endpoint, request.model, request.stream, body, dropped)


def address_request(request: ModelRequest, upstream_name: str) -> dict[str, Any]:
    """The body with the model's name at its provider; where the path names the model, the body does not."""
    body = dict(request.body)
    if request.endpoint.api != "gemini":
        body["model"] = upstream_name
        return body
    body.pop("model", None)
    inner = body.get("generateContentRequest")
    if isinstance(inner, dict):
        body["generateContentRequest"] = {**inner, "model": f"models/{upstream_name}"}
    return body


def _check_request(api: Api, body: Mapping[str, Any], provider: Provider) -> None:
    for name in sorted(REFUSED_FIELDS.intersection(body)):
        if body[name] not in (None, False, [], {}) and name not in provider.fields:
            raise DeniedError(f"the field `{name}` is not sent to a provider", code="model_field_not_allowed")
    for kind in _tool_types(api, body.get("tools")):
        if not _TOOLS[api].fullmatch(kind) and kind not in provider.server_tools:
            raise DeniedError(
                f"a tool of the type {kind[:64]!r} would be run by the provider; its `server_tools` do not name it",
                code="model_tool_not_allowed",
            )
    for name, value in body.items():
        if name not in {"tools", "functions"}:
            _check_content(value)


def _tool_types(api: Api, tools: object) -> Iterator[str]:
    """Yield the kinds of tools. A shell that is not the client's own is a ``hosted_shell``."""
    if tools is None:
        return
    if not isinstance(tools, list):
        raise MalformedError("`tools` is a list", code="model_request_invalid")
    for tool in tools:
        if not isinstance(tool, dict):
            raise MalformedError("a tool is an object", code="model_request_invalid")
        if api == "gemini":
            yield from tool
            continue
        kind = tool.get("type", "custom" if api == "messages" else None)
        if not isinstance(kind, str):
            raise MalformedError("a tool has a type", code="model_request_invalid")
        place = tool.get("environment")
        hosted = kind == "shell" and isinstance(place, dict) and place.get("type") != "local"
        yield "hosted_shell" if hosted else kind
        if kind == "namespace":
            yield from _tool_types(api, tool.get("tools"))


def _check_content(value: object) -> None:
    """Refuse content that the provider would have to fetch. Raises DeniedError (``model_content_not_allowed``)."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            pending += node
        elif isinstance(node, dict):
            if (what := _fetched_address(node)) is not None:
                raise DeniedError(
                    f"{what} would be fetched by the provider; send the content itself", code="model_content_not_allowed"
                )
            of_a_tool = node.get("type") == "tool_use"
            pending += [child for name, child in node.items() if name not in _OPAQUE and not (of_a_tool and name == "input")]


def _fetched_address(node: Mapping[str, Any]) -> str | None:
    for name in _FETCHED.intersection(node):
        if isinstance(node[name], str) and not node[name].startswith("data:"):
            return f"`{name}`"
    image = node.get("image_url")
    address = image.get("url") if isinstance(image, dict) else image
    if isinstance(address, str) and not address.startswith("data:"):
        return "`image_url`"
    if node.get("type") == "url" and "url" in node:
        return "a source of the type `url`"
    if isinstance(kind := node.get("type"), str) and kind in _KEPT:
        return "an `item_reference`"
    return None
