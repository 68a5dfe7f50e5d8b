"""The default model, and its substitutes: models with the same API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gatewright.errors import DeniedError
from gatewright.models.policy import Api, ModelRole, ModelsPolicy, Provider


def provider_of(policy: ModelsPolicy, model: str) -> Provider | None:
    """The provider of a model; None for a name that is no model."""
    found = policy.model(model)
    return policy.provider(found.provider) if found is not None else None


def first_model(policy: ModelsPolicy, role: ModelRole, *, api: Api | None = None, pool: str | None = None) -> str:
    """Return the first model. Raises DeniedError (``model_not_allowed``) if no provider in the route has ``api`` (None:
    any)."""
    for name in policy.route(role, pool):
        provider = provider_of(policy, name)
        if provider is not None and (api is None or api in provider.apis):
            return name
    wanted = f" by the API {api}" if api else ""
    raise DeniedError(f"no model of the {role}'s route in models.json can be asked{wanted}", code="model_not_allowed")


#: The APIs by which a worker asks a model for text, and roles for a document, best first.
TEXT_APIS: Final[tuple[Api, ...]] = ("chat_completions", "messages", "responses")
DOCUMENT_APIS: Final[tuple[Api, ...]] = ("messages", "chat_completions", "responses")


def api_of(policy: ModelsPolicy, model: str, spoken: Sequence[Api]) -> Api | None:
    """The API by which a client asks ``model`` that speaks ``spoken``, best first; None for none."""
    provider = provider_of(policy, model)
    return next((each for each in spoken if provider is not None and each in provider.apis), None)


def asked_models(
    policy: ModelsPolicy, role: ModelRole, model: str, api: Api | None, pool: str | None = None, *, fallback: bool = True
) -> tuple[str, ...]:
    """The models that a task may ask: ``model``, and with ``fallback`` those after it in the route that have the same API.

    ``api`` None: it is not known by which the client asks, so each API of the model's provider counts. Raises what
    ``ModelsPolicy.grant`` does.
    """
    route = policy.grant(role, pool=pool, model=model, fallback=fallback).routes[model]
    first = provider_of(policy, model)
    wanted = {api} if api is not None else set(first.apis) if first is not None else set()
    found = ((name, provider_of(policy, name)) for name in route)
    return tuple(name for name, provider in found if provider is not None and wanted & set(provider.apis))
