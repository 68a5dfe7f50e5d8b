"""What executors that call models share: which model, its gateway, and what is kept of the calls."""

from __future__ import annotations

from gatewright.agents.policy import AgentEntry
from gatewright.contracts import TaskContract
from gatewright.models.choice import first_model, provider_of
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from gatewright.models.records import BODIES, CALLS
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.port import Job


def model_for(policy: ModelsPolicy, contract: TaskContract, entry: AgentEntry | None, *, pool: str | None) -> str:
    """The model that the contract names, or the entry; else the first of the worker's that the agent can talk to.

    Raises DeniedError (``model_not_allowed``).
    """
    named = contract.executor.model if contract.executor is not None else None
    named = named or (entry.model if entry is not None else None)
    return named or first_model(policy, "worker", api=entry.asks_by if entry is not None else None, pool=pool)


def gateway_for(policy: ModelsPolicy, job: Job, model: str, *, pool: str | None) -> ModelGateway:
    """The gateway of one task. Raises what ``ModelsPolicy.grant`` does, and ConfigurationError (``model_key_missing``)."""
    grant = policy.grant("worker", pool=pool, model=model, budget=job.contract.budget)
    provider = provider_of(policy, model)
    if provider is not None and provider.key is not None:
        # Now, in words for the operator; the agent would only see a refused call.
        provider.key.read()
    return ModelGateway(policy, grant, spend=job.spend)


def kept_calls(gateway: ModelGateway, scanner: SecretScanner) -> dict[str, bytes]:
    """The artifacts that say which calls were made. Runs long: use a thread."""
    return {CALLS: gateway.records.as_jsonl(), BODIES: gateway.records.bodies(scanner)}
