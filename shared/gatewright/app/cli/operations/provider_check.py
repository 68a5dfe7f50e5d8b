"""Asks the provider of a model for the list of its models, with its key: whether it answers, and knows the model."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Final

import aiohttp

from gatewright.agents.policy import Api
from gatewright.app.cli.settings import AgentSettings
from gatewright.errors import Fault
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.models.apis.endpoints import MESSAGES_VERSION, key_header, models_url
from gatewright.models.choice import provider_of
from gatewright.models.policy import ModelEntry, Provider, load_models

_SECONDS: Final = 15.0
_MOST_BYTES: Final = 8 << 20
#: Names of models that a message lists.
_MOST_NAMES: Final = 10
_PLACE: Final = "/executor/model"


async def check_provider(name: str, api: Api | None) -> tuple[list[Fault], str]:
    """What is wrong with the provider of the model ``name``, or what it answered. ``api`` None: its first one.

    Raises ConfigurationError for a policy file, a key or a certificate that cannot be used.
    """
    policy = load_models(AgentSettings.load().policies).policy
    model, provider = policy.model(name), provider_of(policy, name)
    if model is None or provider is None:
        known = ", ".join(each.name for each in policy.models[:_MOST_NAMES])
        return [Fault(_PLACE, "model_unknown", f"models.json has no model {name[:128]!r}; it has {known}")], ""
    where = f"the provider {provider.name} ({provider.base_url})"
    try:
        status, body = await _list_models(provider, api or provider.apis[0])
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        words = f"{where} cannot be reached: {type(error).__name__}; is its server running, and is base_url right?"
        return [Fault(_PLACE, "model_unavailable", words)], ""
    if status in {401, 403}:
        return [Fault(_PLACE, "model_key_refused", f"{where} does not take its key ({status})")], ""
    names = _names_of(body) if status == 200 else []
    if not names:
        return [], f"{where} answers ({status}); it lists no models, so that the name was not checked"
    return _check_name(model, names, where)


async def _list_models(provider: Provider, api: Api) -> tuple[int, bytes]:
    key = await asyncio.to_thread(provider.key.read) if provider.key is not None else ""
    headers = {**provider.headers, "Accept": "application/json", **(key_header(api, key) if key else {})}
    if api == "messages":
        headers.setdefault("anthropic-version", MESSAGES_VERSION)
    context = await asyncio.to_thread(ssl.create_default_context, cafile=provider.ca_file)
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    async with (
        aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
        session.get(
            models_url(provider.base_url, api), headers=headers, proxy=provider.proxy, ssl=context, allow_redirects=False
        ) as reply,
    ):
        return reply.status, await reply.content.read(_MOST_BYTES)


def _names_of(body: bytes) -> list[str]:
    """The names in a list of models of OpenAI and Anthropic (``data``) or Gemini (``models``); empty for anything else."""
    try:
        document = read_json(body)
    except UnreadableDocumentError:
        return []
    listed: Any = (document.get("data") or document.get("models")) if isinstance(document, dict) else None
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    names = (each.get("id") or each.get("name") for each in entries)
    return [name.removeprefix("models/") for name in names if isinstance(name, str)]


def _check_name(model: ModelEntry, names: list[str], where: str) -> tuple[list[Fault], str]:
    wanted = model.upstream_name
    # A name without a date or a tag stands for the newest one: claude-sonnet-4-5, qwen2.5-coder.
    if any(name == wanted or name.startswith((f"{wanted}-", f"{wanted}:")) for name in names):
        return [], f"{where} answers, and has the model {wanted}"
    some = ", ".join(sorted(names)[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    words = f"{where} has no model {wanted}, which is the name of {model.name} there; it has {some}. Correct `upstream`"
    return [Fault(_PLACE, "model_unknown", words)], ""
