"""Has a model split a contract, under the rules of the plan gate. What it proposes is a plan only when no rule is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gatewright import scope
from gatewright.contracts import Error, Plan, PlanProposal, TaskContract
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import Fault, ScopeError
from gatewright.git.changes import TreeEntry
from gatewright.git.mirror_tree import is_readable
from gatewright.order_artifacts.canonical_memory import read_memory
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.orders import techlead_order
from gatewright.rules.shards import broken_by_split
from gatewright.services.techlead.partition import Group
from gatewright.services.techlead.plan import make_plan
from gatewright.structured.answers import UNANSWERED, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.structured.blocks import blocks_of
from gatewright.structured.recording import consultation_of, failure_of
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext


@dataclass(frozen=True, slots=True)
class Split:
    """Groups of paths that a model proposed, and the record of the question."""

    groups: tuple[Group, ...]
    consultation: Consultation


class PlanConsultant:
    """Of a tech lead. Keeps nothing between tasks."""

    def __init__(self, agent: Agent, models: RoleModels, library: PromptLibrary) -> None:
        self._agent = agent
        self._models = models
        self._library = library

    @property
    def wanted(self) -> bool:
        """Whether a model is to be asked how to split."""
        return self._models.configured

    async def split(self, task: TaskContract, entries: Sequence[TreeEntry], most: int, context: TaskContext) -> Split | Error:
        """At most ``most`` groups of the files below the task's paths. Raises GatewrightError where no model can be had.

        A model that proposes nothing that the plan gate would let pass is an Error: never another plan in its place.
        """
        files = [entry.path for entry in entries]
        names = sorted(path for entry in entries if is_readable(entry) and (path := _utf8(entry.path)) is not None)
        memory = await read_memory(task.inputs.artifacts, context.artifacts)
        may_ask = task.questions is not None
        prompt = techlead_order(self._library, task, names, most, memory, may_ask=may_ask)

        async def rules(proposal: PlanProposal) -> Sequence[Fault]:
            return self._proposal_faults(task, proposal, files, most)

        asking = Asking(StructuredQuestion(prompt, PlanProposal, rules))
        async with self._models.session(task.budget, context, task.log_refs.run_id, task.task_id) as session:
            try:
                proposal = await asking.ask(session)
            except UNANSWERED as error:
                return await failure_of(asking, error, session.spent, context.artifacts)
        context.log.info("consulted", model=session.spent.model, asked=len(asking.answers))
        blocked, left = blocks_of(proposal, task.task_id, context.clock.now(), may_ask=may_ask)
        kept = context.artifacts
        record = await consultation_of(asking, proposal, session.spent, kept, clamped=left, blocked=blocked)
        return Split(groups_of(proposal, files), record)

    def _proposal_faults(
        self, task: TaskContract, proposal: PlanProposal, files: Sequence[bytes], most: int
    ) -> tuple[Fault, ...]:
        """Return faults: 1. too many shards 2. paths that a contract may not name 3. faults of the plan by the plan gate's
        rules.
        """
        if len(proposal.shards) > most:
            return (Fault("/shards", "invalid", f"must have at most {most} item(s)"),)
        faults = [
            Fault(f"/shards/{number}/paths/{place}", error.reason, error.message)
            for number, shard in enumerate(proposal.shards)
            for place, path in enumerate(shard.paths)
            if (error := _path_error(path)) is not None
        ]
        return tuple(faults) or self._plan_faults(task, make_plan(task, groups_of(proposal, files), self._agent, "-"))

    def _plan_faults(self, task: TaskContract, plan: Plan) -> tuple[Fault, ...]:
        allowed = scope.AllowedPaths(task.allowed_paths)
        faults = [Fault("/shards", each.code, each.detail) for each in broken_by_split(plan)]
        outside = (path for shard in plan.contracts for path in shard.allowed_paths if not allowed.cover(path.encode()))
        faults += [Fault("/shards", "plan_invalid", f"{path} lies outside the files in scope") for path in outside]
        return tuple(faults)


def groups_of(proposal: PlanProposal, files: Sequence[bytes]) -> tuple[Group, ...]:
    """Return the shards as groups, the terminal ones last; a broad one has its keyword, and is dispatched alone."""
    made = [(shard, _distinct_paths(shard.paths)) for shard in proposal.shards]
    groups = [
        Group(paths, _files_below(paths, files), terminal=shard.batch == "terminal", broad=shard.batch == "broad")
        for shard, paths in made
    ]
    return tuple(sorted(groups, key=lambda group: (group.terminal, group.broad, group.paths)))


def _utf8(path: bytes) -> str | None:
    try:
        return path.decode()
    except UnicodeDecodeError:
        return None


def _distinct_paths(paths: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({path.removesuffix("/") for path in paths}))


def _files_below(paths: Sequence[str], files: Sequence[bytes]) -> int:
    below = scope.AllowedPaths(paths)
    return sum(below.holds(path) for path in files)


def _path_error(path: str) -> ScopeError | None:
    try:
        scope.check_allowed_path(path)
    except ScopeError as error:
        return error
    return None
