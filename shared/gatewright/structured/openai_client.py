"""Client library for chat completions and responses."""

from __future__ import annotations

import httpx2
from openai import AsyncOpenAI, OpenAIError
from pydantic_ai.models import Model
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from gatewright.models.policy import Api

ERROR: type[Exception] = OpenAIError


def make_model(client: httpx2.AsyncClient, api: Api, name: str, host: str, key: str) -> Model:
    openai = AsyncOpenAI(base_url=f"{host}/v1", api_key=key, http_client=client, max_retries=0)
    provider = OpenAIProvider(openai_client=openai)
    if api == "chat_completions":
        return OpenAIChatModel(name, provider=provider)
    return OpenAIResponsesModel(name, provider=provider)
