"""Client library for the messages API."""

from __future__ import annotations

import httpx2
from anthropic import AnthropicError, AsyncAnthropic
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

ERROR: type[Exception] = AnthropicError


def make_model(client: httpx2.AsyncClient, name: str, host: str, key: str) -> Model:
    anthropic = AsyncAnthropic(base_url=host, api_key=key, http_client=client, max_retries=0)
    return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=anthropic))
