"""A request in, a task contract out; or an Error that names what the request lacks, or what is proposed in its place."""

from __future__ import annotations

from pydantic import Field

from gatewright.contracts import Error, RequestTask, TaskContract
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import MalformedError
from gatewright.profiles.policy import ENVIRONMENTS_FILE, NO_PROFILES, EnvironmentsPolicy
from gatewright.prompts.library import PromptLibrary
from gatewright.service.settings import ServiceSettings
from gatewright.services.pm.compiler import compile_contract
from gatewright.services.pm.consulting import ContractConsultant
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext


class Settings(ServiceSettings):
    """``agent_id`` is the registered agent that owns the contracts."""

    agent_id: str = Field(default="pm-1", min_length=1)


def make_handler(settings: Settings) -> PmHandler:
    """The handler of a process with these settings. Raises ConfigurationError."""
    agent = Agent(role="PM", agent_id=settings.agent_id)
    models = RoleModels.of("pm", settings)
    profiles = ENVIRONMENTS_FILE.load(settings.policies).policy
    library, mirrors = PromptLibrary(settings.prompts), settings.open_mirrors("pm")
    return PmHandler(settings.agent_id, ContractConsultant(agent, models, library, mirrors, profiles), profiles)


class PmHandler:
    """The pm of id ``agent_id``; without ``consulting`` it compiles only what is complete. Keeps nothing between tasks."""

    def __init__(
        self, agent_id: str, consulting: ContractConsultant | None = None, profiles: EnvironmentsPolicy = NO_PROFILES
    ) -> None:
        self._agent = Agent(role="PM", agent_id=agent_id)
        self._consulting = consulting
        self._profiles = profiles

    async def handle(self, task: RequestTask, context: TaskContext) -> TaskContract | Error:
        """The contract of the request. A request that cannot become one is an ordinary answer, and no fault of the system."""
        try:
            if self._consulting is not None and self._consulting.wanted(task.request):
                return await self._consulting.compile(task, context)
            return compile_contract(task, self._agent, self._profiles)
        except MalformedError as error:
            context.log.info("request_refused", code=error.reason, faults=[fault.pointer for fault in error.faults])
            faults = [ErrorFault(pointer=fault.pointer, code=fault.code, message=fault.message) for fault in error.faults]
            return Error(code=error.reason, message=error.message, faults=tuple(faults), family=error.family)
