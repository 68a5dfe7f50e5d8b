"""The executors that ask: an agent, or a model. Made when the first contract wants one, for what they need loads slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from gatewright.agents.policy import load_agents
from gatewright.models.cassettes import Playback
from gatewright.models.policy import load_models
from gatewright.prompts.library import PromptLibrary
from gatewright.sandbox import Sandbox
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.port import ChangeExecutor, ExecutionResult, Job
from gatewright.services.worker.settings import Settings
from gatewright.workspace import Workspaces


def asking_executors(
    settings: Settings, workspaces: Workspaces, sandbox: Sandbox, scanner: SecretScanner
) -> Mapping[str, ChangeExecutor]:
    """By the kind that contracts name. Raises ConfigurationError for a policy file that cannot be used."""
    library = PromptLibrary(settings.prompts)
    agents, models = load_agents(settings.policies), load_models(settings.policies)
    playback = Playback(settings.cassette) if settings.cassette is not None else None

    def agent() -> ChangeExecutor:
        from gatewright.agents.admission_record import ADMISSIONS
        from gatewright.services.worker.executors.agent import AgentExecutor, AgentHost

        walls = sandbox if isinstance(sandbox, BubblewrapSandbox) else None
        host = AgentHost(
            agents,
            models,
            settings.agent_installations,
            walls,
            settings.home / ADMISSIONS,
            settings.pool,
            library,
            playback,
        )
        return AgentExecutor(host, workspaces, settings.allowed_environments, settings.limits(), scanner)

    def model() -> ChangeExecutor:
        from gatewright.services.worker.executors.model import ModelExecutor

        given = agents.policy.conventions == "given"
        return ModelExecutor(models, scanner, settings.pool, library, playback, conventions=given)

    return {"agent": _OnFirstUse(agent), "model": _OnFirstUse(model)}


class _OnFirstUse:
    def __init__(self, make: Callable[[], ChangeExecutor]) -> None:
        self._make = cache(make)

    async def execute(self, job: Job) -> ExecutionResult:
        """See ``ChangeExecutor``."""
        return await self._make().execute(job)
