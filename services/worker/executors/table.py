"""The executors of a worker, by the kind that contracts name. Those that ask are made when the first contract wants one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from gatewright.agents.policy import AgentsPolicy, load_agents
from gatewright.clock import SystemClock
from gatewright.contracts.vocabulary import ExecutorName
from gatewright.models.cassettes import Playback
from gatewright.models.policy import LoadedModels, load_models
from gatewright.prompts.library import PromptLibrary
from gatewright.research.get_client import AnswerStore
from gatewright.research.policy import RESEARCH_FILE
from gatewright.sandbox import Sandbox
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.executors.command import CommandExecutor
from gatewright.services.worker.executors.given_answers import PatchExecutor, ReplyExecutor
from gatewright.services.worker.executors.port import ChangeExecutor, ExecutionResult, Job
from gatewright.services.worker.settings import Settings
from gatewright.workspace import Workspaces


@dataclass(frozen=True, slots=True)
class ExecutorHost:
    """What a worker has for its executors."""

    settings: Settings
    workspaces: Workspaces
    sandbox: Sandbox
    scanner: SecretScanner
    library: PromptLibrary
    agents: AgentsPolicy
    models: LoadedModels
    playback: Playback | None


def open_executors(
    settings: Settings, workspaces: Workspaces, sandbox: Sandbox, scanner: SecretScanner
) -> Mapping[ExecutorName, ChangeExecutor]:
    """An executor for each kind. Raises ConfigurationError for a policy file that cannot be used."""
    agents, models = load_agents(settings.policies), load_models(settings.policies)
    playback = Playback(settings.cassette) if settings.cassette is not None else None
    library = PromptLibrary(settings.prompts)
    host = ExecutorHost(settings, workspaces, sandbox, scanner, library, agents, models, playback)
    return {kind: make(host) for kind, make in EXECUTORS.items()}


def open_researchers(settings: Settings, scanner: SecretScanner, folder: Path) -> Mapping[ExecutorName, ChangeExecutor]:
    """Return an executor of questions for each kind that has one; ``folder`` keeps answers from the network.

    Raises ConfigurationError for a policy file that cannot be used.
    """
    models, policy = load_models(settings.policies), RESEARCH_FILE.load(settings.policies).policy
    playback = Playback(settings.cassette) if settings.cassette is not None else None

    def research() -> ChangeExecutor:
        from gatewright.services.worker.executors.research.executor import ResearchExecutor

        clock = SystemClock()
        store = AnswerStore(folder, policy.keep_hours, clock)
        return ResearchExecutor(models, policy, store, scanner, clock, settings.pool, playback)

    def take() -> ChangeExecutor:
        from gatewright.services.worker.executors.research.executor import GivenFindings

        return GivenFindings(scanner)

    return {"model": _OnFirstUse(research), "reply": _OnFirstUse(take)}


class _OnFirstUse:
    """An executor whose needs load slowly."""

    def __init__(self, make: Callable[[], ChangeExecutor]) -> None:
        self._make = cache(make)

    async def execute(self, job: Job) -> ExecutionResult:
        """See ``ChangeExecutor``."""
        return await self._make().execute(job)


def _command(host: ExecutorHost) -> ChangeExecutor:
    return CommandExecutor(host.workspaces, host.sandbox, host.settings.allowed_environments, host.settings.limits())


def _agent(host: ExecutorHost) -> ChangeExecutor:
    from gatewright.agents.admission_record import ADMISSIONS
    from gatewright.services.worker.executors.agent import AgentExecutor, AgentHost

    settings = host.settings
    agent_host = AgentHost(
        host.agents,
        host.models,
        settings.agent_installations,
        host.sandbox if isinstance(host.sandbox, BubblewrapSandbox) else None,
        settings.home / ADMISSIONS,
        settings.pool,
        host.library,
        host.playback,
    )
    return AgentExecutor(agent_host, host.workspaces, settings.allowed_environments, settings.limits(), host.scanner)


def _model(host: ExecutorHost) -> ChangeExecutor:
    from gatewright.services.worker.executors.model import ModelExecutor

    given = host.agents.conventions == "given"
    return ModelExecutor(host.models, host.scanner, host.settings.pool, host.library, host.playback, conventions=given)


#: How each kind's executor is made.
EXECUTORS: dict[ExecutorName, Callable[[ExecutorHost], ChangeExecutor]] = {
    "command": _command,
    "patch": lambda _host: PatchExecutor(),
    "reply": lambda _host: ReplyExecutor(),
    "agent": lambda host: _OnFirstUse(partial(_agent, host)),
    "model": lambda host: _OnFirstUse(partial(_model, host)),
}
