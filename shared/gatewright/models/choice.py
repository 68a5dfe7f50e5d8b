"""Which model is asked where nothing names one: the first of the role's route that can be asked in the wanted way."""

from __future__ import annotations

from gatewright.errors import DeniedError
from gatewright.models.policy import Api, ModelRole, ModelsPolicy, Provider


def provider_of(policy: ModelsPolicy, model: str) -> Provider | None:
    """The provider of a model; None for a name that is no model."""
    found = policy.model(model)
    return policy.provider(found.provider) if found is not None else None


def first_model(policy: ModelsPolicy, role: ModelRole, *, api: Api | None = None, pool: str | None = None) -> str:
    """Raises DeniedError (``model_not_allowed``) when the route has none whose provider has ``api`` (None: any)."""
    for name in policy.route(role, pool):
        provider = provider_of(policy, name)
        if provider is not None and (api is None or api in provider.apis):
            return name
    wanted = f" by the API {api}" if api else ""
    raise DeniedError(f"no model of the {role}'s route in models.json can be asked{wanted}", code="model_not_allowed")
