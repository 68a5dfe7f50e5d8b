"""The endpoints that the gateway admits, by the exact bytes of the request line; all others are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import parse_qsl

from gatewright.models.policy import Api

Action = Literal["generate", "count"]

#: Default of the Messages API for clients without a header ``anthropic-version``.
MESSAGES_VERSION: Final = "2023-06-01"
#: Longest request target that is looked at.
_LONGEST = 2048
#: The place of the tool servers of a task, each by its name.
TOOLS_PATH: Final = "/mcp/"
_PLAIN: dict[str, tuple[Api, Action]] = {
    "/v1/responses": ("responses", "generate"),
    "/responses": ("responses", "generate"),
    "/v1/chat/completions": ("chat_completions", "generate"),
    "/chat/completions": ("chat_completions", "generate"),
    "/v1/messages": ("messages", "generate"),
    "/v1/messages/count_tokens": ("messages", "count"),
}
#: No percent sign: no model has a name that needs one.
_GEMINI = re.compile(r"/v1beta/models/([A-Za-z0-9._-]{1,128}):(generateContent|streamGenerateContent|countTokens)")  # noqa: TID251 - linear: of a bounded length
_MODELS = frozenset({"/v1/models", "/models"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``model`` and ``stream`` are set if the path contains them; in the other APIs the body does."""

    api: Api
    action: Action
    path: str
    model: str | None = None
    stream: bool | None = None


def endpoint_of(method: str, target: str) -> Endpoint | None:
    """Return the requested endpoint. None if not admitted: another method, path, or form of the target (``http://...``)."""
    path, _, query = target[: _LONGEST + 1].partition("?")
    if method != "POST" or len(target) > _LONGEST:
        return None
    if path in _PLAIN:
        api, action = _PLAIN[path]
        return Endpoint(api, action, path)
    if (found := _GEMINI.fullmatch(path)) is None:
        return None
    stream = found[2] == "streamGenerateContent"
    if stream and dict(parse_qsl(query)).get("alt") != "sse":
        return None
    return Endpoint("gemini", "count" if found[2] == "countTokens" else "generate", path, found[1], stream)


def lists_models(method: str, target: str) -> bool:
    """Return whether the request lists models; the gateway answers that itself."""
    return method == "GET" and target.partition("?")[0] in _MODELS


def key_header(api: Api, key: str) -> dict[str, str]:
    """The header by which a provider of ``api`` takes its key."""
    match api:
        case "messages":
            return {"x-api-key": key}
        case "gemini":
            return {"x-goog-api-key": key}
        case _:
            return {"Authorization": f"Bearer {key}"}


def models_url(base_url: str, api: Api) -> str:
    """Return the address at which a provider of ``api`` lists its models."""
    return base_url + {"messages": "/v1/models", "gemini": "/v1beta/models"}.get(api, "/models")


def upstream_url(base_url: str, endpoint: Endpoint, model: str, *, stream: bool) -> str:
    """Return the address of a request at a provider; only the kind of endpoint comes from the client."""
    match endpoint.api:
        case "responses":
            return f"{base_url}/responses"
        case "chat_completions":
            return f"{base_url}/chat/completions"
        case "messages":
            return f"{base_url}/v1/messages" + ("/count_tokens" if endpoint.action == "count" else "")
        case "gemini":
            if endpoint.action == "count":
                return f"{base_url}/v1beta/models/{model}:countTokens"
            return f"{base_url}/v1beta/models/{model}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")
