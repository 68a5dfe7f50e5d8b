"""A contract in, a plan of disjoint shards out; and the settings of the tech lead."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace
from pydantic import Field

from gatewright import scope
from gatewright.clock import timestamp
from gatewright.contracts import Error, Plan, TaskContract
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.mirror import Mirrors
from gatewright.host_facts import surroundings
from gatewright.prompts.library import PromptLibrary
from gatewright.service.settings import ServiceSettings
from gatewright.services.techlead.consulting import PlanConsultant, Split
from gatewright.services.techlead.partition import Group, partition
from gatewright.services.techlead.plan import make_plan
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext
from gatewright.tasks.inputs import open_baseline


class Settings(ServiceSettings):
    """``agent_id`` is the registered agent that owns the shards."""

    agent_id: str = Field(default="techlead-1", min_length=1)


def make_handler(settings: Settings) -> TechLeadHandler:
    """The handler of a process with these settings. Raises ConfigurationError."""
    agent = Agent(role="TECH_LEAD", agent_id=settings.agent_id)
    consulting = PlanConsultant(agent, RoleModels.of("techlead", settings), PromptLibrary(settings.prompts))
    return TechLeadHandler(settings.agent_id, settings.open_mirrors("techlead"), consulting)


class TechLeadHandler:
    """The tech lead of id ``agent_id``; without ``consulting`` it splits by the number of files."""

    def __init__(self, agent_id: str, mirrors: Mirrors, consulting: PlanConsultant | None = None) -> None:
        self._agent = Agent(role="TECH_LEAD", agent_id=agent_id)
        self._mirrors = mirrors
        self._consulting = consulting

    async def handle(self, task: TaskContract, context: TaskContext) -> Plan | Error:
        """The plan of a contract: one shard that passes it through, or as many as it asks for and its files allow.

        Raises MalformedError (``plan_invalid``, ``repository_missing``), ScopeError, GitError, and what a model's gateway does.
        """
        split = await self._split(task, context)
        if isinstance(split, Error):
            return split
        groups, consultation = (split.groups, split.consultation) if isinstance(split, Split) else (split, None)
        context.log.info("planned", shards=len(groups), files=[group.size for group in groups])
        plan = make_plan(task, groups, self._agent, timestamp(context.clock.now()))
        return replace(plan, surroundings=await asyncio.to_thread(surroundings), consultation=consultation)

    async def _split(self, task: TaskContract, context: TaskContext) -> tuple[Group, ...] | Split | Error:
        allowed = [scope.check_allowed_path(path) for path in task.allowed_paths]
        wanted = task.sharding.count if task.sharding is not None else 1
        executor = task.executor
        # One patch or reply is indivisible: only a maker that works again can be assigned its own paths.
        # An order for a plan names no maker.
        if wanted == 1 or task.candidates or (executor is not None and not EXECUTOR_KINDS[executor.kind].splits):
            return (Group(tuple(task.allowed_paths), 0),)
        if executor is not None and not all(scope.takes_paths(command) for command in executor.commands):
            raise MalformedError(f"a command without {scope.PATHS_WORD} cannot be split", code="plan_invalid")
        mirror, baseline = await open_baseline(task, self._mirrors)
        entries = await mirror.files(await mirror.tree_of(baseline), tuple(allowed))
        if self._consulting is not None and self._consulting.wanted:
            return await self._consulting.split(task, entries, wanted, context)
        return partition([entry.path for entry in entries], allowed, wanted)
