"""One question to one model over an HTTP client that leads to the gateway: the library's part. Imported when a model is asked.

The library knows how each API wants a conversation; nothing is retried here, and nothing leaves by any other way. Each API's
client takes as long to load as all the rest: only the one that is asked is.
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

#: What the library raises for an answer that is no success, or none; an SSL error cannot come, as there is no TLS.
LAYER_ERRORS = (AgentRunError, httpx2.HTTPError, OSError)
_HOST = "http://gateway"
#: Nothing: the gateway holds the key, and takes no other.
_NO_KEY = "none"
#: Tokens of an answer; an API wants to be told.
_MOST_TOKENS = 16_000


def client_of(socket: Path | str) -> httpx2.AsyncClient:
    """An HTTP client whose every connection is the gateway's Unix socket."""
    # No time limit of its own: the gateway has one for each call, and the task has one for all of them.
    return httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(uds=str(socket)), timeout=None, trust_env=False)


def words_of(error: Exception) -> str:
    """What the gateway, or else the library, says of a call that failed."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    said = inner.get("message") if isinstance(inner, dict) else None
    return said if isinstance(said, str) else (str(error).splitlines() or [type(error).__name__])[0]


async def one_answer(client: httpx2.AsyncClient, api: Api, model: str, system: str, turns: Sequence[Turn]) -> str:
    """The text of the model's answer. Raises one of LAYER_ERRORS."""
    conversation: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart(content=system), UserPromptPart(content=turns[0].text)])
    ]
    for turn in turns[1:]:
        said = turn.text
        conversation.append(
            ModelResponse(parts=[TextPart(content=said)])
            if turn.speaker == "model"
            else ModelRequest(parts=[UserPromptPart(content=said)])
        )
    settings = ModelSettings(max_tokens=_MOST_TOKENS)
    asked, client_error = _model(client, api, model)
    try:
        response = await model_request(asked, conversation, model_settings=settings)
    except client_error as error:
        raise AgentRunError(words_of(error)) from error
    return "".join(part.content for part in response.parts if isinstance(part, TextPart))


def _model(client: httpx2.AsyncClient, api: Api, name: str) -> tuple[Model, type[Exception]]:
    """The model, and what its client raises."""
    if api == "messages":
        from gatewright.structured import messages_client

        return messages_client.make_model(client, name, _HOST, _NO_KEY), messages_client.ERROR
    from gatewright.structured import openai_client

    return openai_client.make_model(client, api, name, _HOST, _NO_KEY), openai_client.ERROR
