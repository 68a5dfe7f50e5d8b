"""Has a model propose what a request leaves open. The pm reads the baseline's objects for it, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gatewright.contracts import ContractProposal, Error, RequestTask, RunRequest, TaskContract, codec
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import Fault
from gatewright.git.mirror import Mirrors
from gatewright.git.mirror_tree import list_tree
from gatewright.order_artifacts.canonical_memory import read_memory, without_memory
from gatewright.profiles.policy import NO_PROFILES, EnvironmentsPolicy
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.orders import PM_EXECUTORS, pm_order
from gatewright.prompts.repository_view import look_at
from gatewright.services.pm.clamping import CONFIRMED, clamps, faults_of, fill_in, left_open
from gatewright.services.pm.compiler import compile_contract
from gatewright.structured.answers import UNANSWERED, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.structured.blocks import blocks_of
from gatewright.structured.recording import consultation_of, failure_of
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext

#: The artifact that holds the request as it would be complete: what a requester confirms is this document, submitted.
PROPOSAL = "proposal.json"
UNCONFIRMED = "proposal_unconfirmed"


class ContractConsultant:
    """Of the pm ``agent``. Keeps nothing between tasks."""

    def __init__(
        self,
        agent: Agent,
        models: RoleModels,
        library: PromptLibrary,
        mirrors: Mirrors,
        profiles: EnvironmentsPolicy = NO_PROFILES,
    ) -> None:
        self._agent = agent
        self._models = models
        self._library = library
        self._mirrors = mirrors
        self._profiles = profiles

    def wanted(self, request: RunRequest) -> bool:
        """Return whether to ask a model: something is left open, and the pm has a model."""
        return bool(left_open(request)) and self._models.configured

    async def compile(self, task: RequestTask, context: TaskContext) -> TaskContract | Error:
        """The contract of a request whose tests were left open; for one that leaves more open, the proposal as an Error.

        Raises GatewrightError where the repository or the model cannot be had, MalformedError as the compiler does.
        """
        request = task.request
        mirror = await self._mirrors.open(request.repository.url)
        await mirror.ensure(task.baseline_commit)
        tree = await list_tree(mirror, task.baseline_commit, readable=True)
        view = await look_at(tree, request.request, request.allowed_paths)
        memory = await read_memory(request.artifacts, context.artifacts)
        prompt = pm_order(self._library, request, task.baseline_commit, view, memory, may_ask=task.may_ask)

        async def rules(proposal: ContractProposal) -> Sequence[Fault]:
            return await faults_of(proposal, request, tree, view.tests, PM_EXECUTORS)

        asking = Asking(StructuredQuestion(prompt, ContractProposal, rules))
        async with self._models.session(request.budget, context, task.run_id, task.task_id) as session:
            try:
                proposal = await asking.ask(session)
            except UNANSWERED as error:
                return await failure_of(asking, error, session.spent, context.artifacts)
        whole = fill_in(request, proposal)
        blocked, left = blocks_of(proposal, task.task_id, context.clock.now(), may_ask=task.may_ask)
        clamped = (*clamps(request, proposal), *left)
        context.log.info("consulted", model=session.spent.model, asked=len(asking.answers), clamped=len(clamped))
        confirm = tuple(name for name in left_open(request) if name in CONFIRMED)
        more = [(PROPOSAL, codec.encode(_submittable(whole)))] if confirm else []
        kept = context.artifacts
        record = await consultation_of(
            asking, proposal, session.spent, kept, clamped=clamped, blocked=() if confirm else blocked, more=more
        )
        if confirm:
            return _unconfirmed_error(whole, confirm, record)
        contract = compile_contract(replace(task, request=whole), self._agent, self._profiles)
        return replace(contract, consultation=record)


def _submittable(whole: RunRequest) -> RunRequest:
    """As a publisher may send it: under a key of its own, and without the memory, which the gatekeeper gives."""
    return replace(whole, idempotency_key=None, artifacts=without_memory(whole.artifacts))


def _unconfirmed_error(whole: RunRequest, confirm: Sequence[str], record: Consultation) -> Error:
    """The answer to a request that leaves open what only its requester may settle."""
    tests = "; ".join(test.cmd for test in whole.acceptance_tests)
    how = whole.executor
    executor = f"{how.kind} {'; '.join(how.commands)}".strip() if how is not None else "none"
    message = f"proposed, and not run: paths {', '.join(whole.allowed_paths)}; tests {tests}; executor {executor}"
    faults = tuple(
        ErrorFault(pointer=f"/{name}", code=UNCONFIRMED, message="was left open, and is proposed") for name in confirm
    )
    return Error(code=UNCONFIRMED, message=message, faults=faults, family="bad_input", consultation=record)
