"""What executors that call models share: which model, its gateway, and what is kept of the calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatewright.agents.policy import AgentEntry
from gatewright.contracts import TaskContract
from gatewright.errors import DeniedError
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import Api, ModelsPolicy
from gatewright.models.records import BODIES, CALLS
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.port import Job

#: What each protocol asks a model by; an agent of the Agent Client Protocol says it in its entry.
_APIS: Final[Mapping[str, Api]] = {"codex-app-server": "responses", "codex-exec": "responses", "claude": "messages"}


def model_for(policy: ModelsPolicy, contract: TaskContract, entry: AgentEntry | None, *, pool: str | None) -> str:
    """The model that the contract names, or the entry; else the first of the worker's that the agent can talk to.

    Raises DeniedError (``model_not_allowed``).
    """
    named = contract.executor.model if contract.executor is not None else None
    if named is None and entry is not None:
        named = entry.model
    if named is not None:
        return named
    api = None if entry is None else entry.api or _APIS.get(entry.protocol)
    for name in policy.route("worker", pool):
        if api is None or api in _apis(policy, name):
            return name
    wanted = f" by the API {api}" if api else ""
    raise DeniedError(f"no model of the worker's route in models.json can be asked{wanted}", code="model_not_allowed")


def gateway_for(policy: ModelsPolicy, job: Job, model: str, *, pool: str | None) -> ModelGateway:
    """The gateway of one task. Raises what ``ModelsPolicy.grant`` does, and ConfigurationError (``model_key_missing``)."""
    grant = policy.grant("worker", pool=pool, model=model, budget=job.contract.budget)
    provider = next((each for each in policy.providers if each.name == _provider(policy, model)), None)
    if provider is not None and provider.key is not None:
        # Now, in words for the operator; the agent would only see a refused call.
        provider.key.read()
    return ModelGateway(policy, grant, spend=job.spend)


def kept_calls(gateway: ModelGateway, scanner: SecretScanner) -> dict[str, bytes]:
    """The artifacts that say which calls were made. Runs long: use a thread."""
    return {CALLS: gateway.records.as_jsonl(), BODIES: gateway.records.bodies(scanner)}


def _provider(policy: ModelsPolicy, model: str) -> str:
    found = policy.model(model)
    return found.provider if found is not None else ""


def _apis(policy: ModelsPolicy, model: str) -> tuple[Api, ...]:
    provider = policy.provider(_provider(policy, model))
    return provider.apis if provider is not None else ()
