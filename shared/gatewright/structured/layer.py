"""One question to one model by the client library, over the gateway's HTTP socket. Imported when a model is asked.

The library implements each API's form of a conversation. Nothing is retried here, and there is no other connection. Each API's
client loads slowly, so only the needed one is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx2
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import AgentRunError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from gatewright.models.policy import Api
from gatewright.structured.asking import Turn

#: Exceptions of the library for failed calls; SSL errors cannot occur without TLS.
LAYER_ERRORS = (AgentRunError, httpx2.HTTPError, OSError)
_HOST = "http://gateway"
#: Placeholder: the gateway holds the key and ignores this one.
_NO_KEY = "none"
#: Maximum tokens of an answer; one API requires a value.
_MOST_TOKENS = 16_000


def client_of(socket: Path | str) -> httpx2.AsyncClient:
    """Return an HTTP client that connects only to the gateway's Unix socket."""
    # No time limit here: the gateway has one per call, and the task has one for all calls.
    return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=str(socket)), timeout=None, trust_env=False)


def words_of(error: Exception) -> str:
    """Return the message of the gateway, or else of the library, about a failed call."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    return message if isinstance(message, str) else (str(error).splitlines() or [type(error).__name__])[0]


async def one_answer(client: httpx2.AsyncClient, api: Api, model: str, system: str, turns: Sequence[Turn]) -> str:
    """Return the text of the model's answer. Raises one of LAYER_ERRORS."""
    conversation: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart(content=system), UserPromptPart(content=turns[0].text)])
    ]
    conversation.extend(
        ModelResponse(parts=[TextPart(content=turn.text)])
        if turn.speaker == "model"
        else ModelRequest(parts=[UserPromptPart(content=turn.text)])
        for turn in turns[1:]
    )
    settings = ModelSettings(max_tokens=_MOST_TOKENS)
    asked, client_error = _model(client, api, model)
    try:
        response = await model_request(asked, conversation, model_settings=settings)
    except client_error as error:
        raise AgentRunError(words_of(error)) from error
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _model(client: httpx2.AsyncClient, api: Api, name: str) -> tuple[Model, type[Exception]]:
    """Return the model, and the exception class of its client."""
    if api == "messages":
        from gatewright.structured import messages_client

        return messages_client.make_model(client, name, _HOST, _NO_KEY), messages_client.ERROR
    from gatewright.structured import openai_client

    return openai_client.make_model(client, api, name, _HOST, _NO_KEY), openai_client.ERROR
