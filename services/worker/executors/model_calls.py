"""What executors that call models share: which model, its gateway, and what is kept of the calls."""

from __future__ import annotations

from gatewright.agents.policy import AgentEntry
from gatewright.contracts import TaskContract
from gatewright.errors import MalformedError
from gatewright.models.cassettes import Cassette, Playback, task_place
from gatewright.models.choice import first_model, provider_of
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import LoadedModels, ModelsPolicy
from gatewright.models.records import CALLS, CASSETTE
from gatewright.models.transfers import TransferGuard
from gatewright.prompts.worker_brief import BRIEF
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.port import Job


def model_for(policy: ModelsPolicy, contract: TaskContract, entry: AgentEntry | None, *, pool: str | None) -> str:
    """The model that the contract names, or the entry; else the first of the worker's that the agent can talk to.

    Raises DeniedError (``model_not_allowed``).
    """
    named = contract.executor.model if contract.executor is not None else None
    named = named or (entry.model if entry is not None else None)
    return named or first_model(policy, "worker", api=entry.asks_by if entry is not None else None, pool=pool)


def gateway_for(
    loaded: LoadedModels, job: Job, model: str, *, pool: str | None, playback: Playback | None = None
) -> ModelGateway:
    """The gateway of one task; with ``playback`` it plays what was recorded of this task, and needs no key.

    ``recording.brief`` of the gateway is the version of the order to use: the current one, or that of the recording.
    Raises what ``ModelsPolicy.grant`` does, ConfigurationError (``model_key_missing``), MalformedError (``cassette_invalid``).
    """
    contract, policy = job.contract, loaded.policy
    fallback = contract.executor is None or contract.executor.falls_back
    grant = policy.grant("worker", pool=pool, model=model, fallback=fallback, budget=contract.budget)
    task = task_place(contract.log_refs.run_id, contract.task_id)
    playing = playback.cassette(task) if playback is not None else None
    provider = provider_of(policy, model)
    if playing is None and provider is not None and provider.key is not None:
        # Now, in words for the operator; the agent would only see a refused call.
        provider.key.read()
    guard = TransferGuard(contract.log_refs.run_id, "worker", loaded.transfers, contract.transfer, job.spend)
    gateway = ModelGateway(policy, grant, spend=job.spend, task=task, playing=playing, guard=guard)
    gateway.recording.brief = BRIEF if playing is None else _played_brief(playing)
    return gateway


def _played_brief(playing: Cassette) -> int:
    if playing.head.brief > BRIEF:
        words = (
            f"the recording uses version {playing.head.brief} of a worker's order; this Gatewright has 1 to {BRIEF}: upgrade it"
        )
        raise MalformedError(words, code="cassette_invalid")
    return playing.head.brief


def kept_calls(gateway: ModelGateway, scanner: SecretScanner) -> dict[str, bytes]:
    """Return the artifacts with the calls and their content. Slow: use a thread."""
    return {CALLS: gateway.records.as_jsonl(), CASSETTE: gateway.recording.as_jsonl(scanner)}
