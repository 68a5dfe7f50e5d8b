"""Checks that must pass before an input takes effect.

The gates answer each check with a verdict, which carries a gate report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.contracts import Error, GateReport, Plan, ReviewReport, RunRequest, TaskContract, TaskResult, TestReport
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.people.approvals import ApprovalRule, AskStage, SignedDecision
from gatewright.contracts.progress import MemoryBounds
from gatewright.contracts.routing import RoutingRules
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import Judging, MutationBounds
from gatewright.git.patches.version_moves import Move
from gatewright.rules.approvals import JudgedDecision, is_cleared, stage_of, unapprovable, unasked_rules
from gatewright.rules.critic import awaits_critic, is_critic_due
from gatewright.rules.grants import JudgedGrant, grantable
from gatewright.rules.landing import lands_by_queue
from gatewright.rules.model_tester import awaits_tester, is_tester_due
from gatewright.rules.routing import is_due
from gatewright.rules.standing import HeldRoster
from gatewright.run.candidates import all_worked, makers
from gatewright.run.events import CandidateComposed, ChangedOrder
from gatewright.run.state import Run, RunTask
from gatewright.run.states import QUEUED
from gatewright.services.gatekeeper.decider.inputs import (
    AbortReceived,
    Continue,
    DecisionsReceived,
    Input,
    RoleReplied,
    Submitted,
)
from gatewright.tasks.protocol import ANSWERS


@dataclass(frozen=True, slots=True)
class IntakeCheck:
    """May this document from ``publisher`` become a run, and on which commit?"""

    run_id: str
    document: RunRequest | TaskContract
    publisher: str = DEFAULT_PUBLISHER


@dataclass(frozen=True, slots=True)
class ContractCheck:
    """Is the contract that the pm compiled allowed, and does it match the request?"""

    run: Run
    contract: TaskContract


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """Are the shards disjoint, inside the contract and no wider than it?"""

    run: Run
    plan: Plan


@dataclass(frozen=True, slots=True)
class LocksCheck:
    """Can the run have its paths now, all or nothing?"""

    run: Run


@dataclass(frozen=True, slots=True)
class DiffCheck:
    """Does the worker's patch apply, and does it stay inside the shard?"""

    run: Run
    task: RunTask
    result: TaskResult


@dataclass(frozen=True, slots=True)
class IntegratedCheck:
    """Do the patches compose, and does the whole stay inside the contract?"""

    run: Run


@dataclass(frozen=True, slots=True)
class ReviewCheck:
    """Did a reviewer pass the very candidate, and is it none of ``makers``?"""

    run: Run
    report: ReviewReport
    makers: tuple[RunTask, ...]


@dataclass(frozen=True, slots=True)
class TestsCheck:
    """Did every acceptance command run on this exact candidate, and did all required commands pass?"""

    run: Run
    report: TestReport


@dataclass(frozen=True, slots=True)
class PullCheck:
    """Did people agree to the candidate's packages, and has the puller made their environments?"""

    run: Run


@dataclass(frozen=True, slots=True)
class DecisionCheck:
    """Did authorised people sign these decisions, about exactly the open requests of the run?"""

    run: Run
    decisions: tuple[SignedDecision, ...]


@dataclass(frozen=True, slots=True)
class GrantsCheck:
    """Has a person approved in advance what the run is about to request?"""

    run: Run


@dataclass(frozen=True, slots=True)
class QueueCheck:
    """May the candidate enter the merge queue of its target?"""

    run: Run


@dataclass(frozen=True, slots=True)
class WithdrawalCheck:
    """Has the run left the merge queue, so that it may end?"""

    run: Run


@dataclass(frozen=True, slots=True)
class LandingCheck:
    """Does the target ref point to the candidate, with the tree that was tested? Did the merge queue land the run?"""

    run: Run


GateCheck = (
    IntakeCheck
    | ContractCheck
    | PlanCheck
    | LocksCheck
    | DiffCheck
    | IntegratedCheck
    | ReviewCheck
    | TestsCheck
    | PullCheck
    | DecisionCheck
    | GrantsCheck
    | QueueCheck
    | WithdrawalCheck
    | LandingCheck
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A gate's answer."""

    report: GateReport

    @property
    def passed(self) -> bool:
        return self.report.verdict == "PASS"


@dataclass(frozen=True, slots=True)
class IntakeVerdict(Verdict):
    """``document`` is the submission with pinned baseline, run id and artifacts; the identity is that of its repository."""

    document: RunRequest | TaskContract
    baseline_commit: str
    baseline_tree: str
    policy_sha256: str
    versions: dict[str, str]
    policies: dict[str, str] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)
    repository_identity: str = ""
    mutation: MutationBounds | None = None
    judging: Judging = "in_turn"
    approval_rules: tuple[ApprovalRule, ...] = ()
    #: The chosen pool of each role that has several pools.
    pools: dict[str, str] = field(default_factory=dict)
    routing: RoutingRules | None = None
    #: How much memory of earlier runs the run receives; None when the policy disables memory.
    memory: MemoryBounds | None = None
    #: Publishers that the settings list in addition to the policy file.
    named_publishers: tuple[str, ...] = ()
    #: People who ordered the run or may have ordered it; empty when unknown.
    orderers: tuple[str, ...] = ()
    #: Manifests of a contract that has no plan; see ``PlanVerdict``.
    transfers: tuple[TransferManifest, ...] = ()


@dataclass(frozen=True, slots=True)
class ContractVerdict(Verdict):
    """``pools`` and ``transfers``: as for the intake, for the contract as completed by the pm."""

    pools: dict[str, str] = field(default_factory=dict)
    transfers: tuple[TransferManifest, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanVerdict(Verdict):
    """``transfers``: data that roles may send to model providers, where policy requires approval."""

    transfers: tuple[TransferManifest, ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionVerdict(Verdict):
    """Fails when one decision is a rejection. ``roster_sha256`` is the digest of the roster used.

    ``held``: which earlier answers that roster still accepts; None without earlier answers.
    """

    judged: tuple[JudgedDecision, ...]
    roster_sha256: str
    held: HeldRoster | None = None


@dataclass(frozen=True, slots=True)
class GrantClaim:
    """A grant that answers ``rule``; ``use`` is the number of runs it has approved, this one included."""

    rule: str
    judged: JudgedGrant
    use: int


@dataclass(frozen=True, slots=True)
class GrantsVerdict(Verdict):
    """Always passes: uncovered requests are sent to people. ``roster_sha256``: digest of the roster used."""

    claims: tuple[GrantClaim, ...]
    roster_sha256: str


@dataclass(frozen=True, slots=True)
class LocksVerdict(Verdict):
    """``holders`` are the runs that hold conflicting paths; ``token`` is the fencing token of a grant."""

    paths: tuple[str, ...]
    token: int
    holders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DiffVerdict(Verdict):
    tree: str


@dataclass(frozen=True, slots=True)
class CandidateVerdict(Verdict):
    """``patch`` and ``names`` are artifact URIs: the canonical diff, and the changed paths, NUL-separated."""

    tree: str
    patch: str
    names: str
    changed_files: int
    changed_lines: int = 0
    path_kinds: dict[str, int] | None = None
    versions: Move | None = None
    order: ChangedOrder | None = None

    def composed(self, candidate: int = 0) -> CandidateComposed:
        """Return the event that records this verdict, for one candidate where the run has several."""
        return CandidateComposed(
            tree=self.tree,
            patch=self.patch,
            names=self.names,
            changed_files=self.changed_files,
            changed_lines=self.changed_lines,
            candidate=candidate,
            path_kinds=self.path_kinds,
            versions=self.versions,
            order=self.order,
        )


@dataclass(frozen=True, slots=True)
class PullVerdict(Verdict):
    """``environments`` are the puller's. ``waits``: it has not made them yet, and nothing is decided."""

    environments: tuple[OrderedEnvironment, ...] = ()
    waits: bool = False


@dataclass(frozen=True, slots=True)
class QueueVerdict(Verdict):
    """``held``: which answers of people the current roster still accepts; None when the landing needs no answers."""

    held: HeldRoster | None = None
    roster_sha256: str = ""


@dataclass(frozen=True, slots=True)
class WithdrawalVerdict(Verdict):
    """Fails while the merge queue lands the run."""


@dataclass(frozen=True, slots=True)
class LandingVerdict(Verdict):
    """``held``: which answers of people the current roster still accepts; None when the landing needs no answers.

    ``waits``: the run is still in the merge queue, and nothing is decided. ``receipt``: URI of the queue's receipt.
    """

    commit: str
    tree: str
    ref: str
    previous: str | None
    found: bool = False
    held: HeldRoster | None = None
    roster_sha256: str = ""
    waits: bool = False
    receipt: str = ""


V = TypeVar("V", bound=Verdict)


def verdict_of(verdicts: Sequence[Verdict], kind: type[V]) -> V | None:
    """Return the first verdict of class ``kind``, or None."""
    return next((verdict for verdict in verdicts if isinstance(verdict, kind)), None)


def required_checks(run: Run | None, item: Input) -> tuple[GateCheck, ...]:
    """Return the checks that must pass before ``item`` takes effect on ``run``.

    Returns:
        The checks in order; empty for an input that will be ignored.
    """
    if run is None:
        return (IntakeCheck(item.run_id, item.document, item.publisher),) if isinstance(item, Submitted) else ()
    if run.ended:
        return ()
    match item:
        case RoleReplied():
            return _about_answer(run, item)
        case DecisionsReceived(decisions=decisions):
            return (DecisionCheck(run, decisions),)
        case AbortReceived() if run.state == QUEUED:
            return (WithdrawalCheck(run),)
        case Continue():
            return _about_next_step(run)
        case _:
            return ()


def _about_answer(run: Run, item: RoleReplied) -> tuple[GateCheck, ...]:
    task = expected_task(run, item)
    match item.document:
        case _ if task is None:
            return ()
        case TaskContract() as contract:
            return (ContractCheck(run, contract),)
        case Plan() as plan:
            return (PlanCheck(run, plan),)
        case TaskResult(status="SUCCESS") as result:
            return (DiffCheck(run, task, result),)
        case ReviewReport() as review:
            judged = (ReviewCheck(run.seen_from(task.candidate), review, makers(run)),)
            return (*judged, TestsCheck(run, run.tests)) if run.tests is not None else judged
        case TestReport() as tests if comes_before_its_turn(run):
            return ()
        case TestReport() as tests:
            return (TestsCheck(run.seen_from(task.candidate), tests),)
        case _:
            return ()


def _about_next_step(run: Run) -> tuple[GateCheck, ...]:
    match next_step(run):
        case "ask":
            stage = stage_of(run)
            return (GrantsCheck(run),) if stage is not None and grantable(run, stage) else ()
        case "locks":
            return (LocksCheck(run),)
        case "compose":
            return tuple(IntegratedCheck(run.seen_from(number)) for number in run.in_the_running() or (0,))
        case "pull":
            return (PullCheck(run),)
        case "queue":
            return (QueueCheck(run.seen_from(run.chosen)),)
        case "land" | "merge":
            return (LandingCheck(run.seen_from(run.chosen)),)
        case _:
            return ()


def next_step(run: Run) -> str | None:
    """Return the next step of the gatekeeper itself.

    Returns:
        ``route``, ``advise``, ``refuse``, ``ask``, ``finish``, ``locks``, ``search``, ``compose``, ``pull``, ``queue``,
        ``merge``, ``land``, ``seal`` or None.
    """
    if run.ended:
        return None if run.sealed else "seal"
    if run.state == QUEUED:
        return "merge"
    if is_due(run):
        return "route"
    if awaits_tester(run) or awaits_critic(run):
        return None
    if is_tester_due(run) or is_critic_due(run):
        return "advise"
    stage = stage_of(run)
    if not run.parked and unapprovable(run):
        return "refuse"
    if stage is not None and not is_cleared(run, stage):
        return "ask" if unasked_rules(run, stage) and not run.parked else None
    return _work_step(run, stage)


def _work_step(run: Run, stage: AskStage | None) -> str | None:
    """Return the step for which people need not be asked, or have agreed."""
    if stage == "environment":
        return None if run.parked else "pull"
    if run.state == "S1" and not run.kind.plans:
        return "search" if run.kind.works else "compose"
    if run.state == "S1" and run.plan is not None:
        return "locks"
    if run.state == "S5" and run.locks is None:
        return "locks"  # released while people decided, who sent the change back
    if run.state == "S2" and run.candidate is None and _can_compose(run):
        return "compose"
    return _last_step(run) if stage == "candidate" and not run.parked else None


def _last_step(run: Run) -> str:
    """Return how a tested change lands; commits under review do not.

    Locks that were released while the run waited for a person are taken again.
    """
    if not run.kind.lands:
        return "finish"
    if lands_by_queue(run):
        return "queue"
    return "land" if run.locks is not None else "locks"


def comes_before_its_turn(run: Run) -> bool:
    """Return whether a test report would arrive before the review. Reports are judged in the order of the states."""
    return (run.parked_from or run.state) == "S3" and not run.candidates


def _can_compose(run: Run) -> bool:
    if run.candidates:
        return all_worked(run) and bool(run.in_the_running())
    workers = run.workers()
    return bool(workers) and all(task.status == "SUCCESS" for task in workers)


def misfit(run: Run, item: RoleReplied) -> RunTask | None:
    """Return the running task that ``item`` answers with a document type of another role, or None.

    Source: specification 6.1.3.
    """
    document = item.document
    if _fits(item):
        return None
    task = run.tasks.get(document.task_id or "")
    return task if task is not None and task.role == item.role and task.status == "RUNNING" else None


def expected_task(run: Run, item: RoleReplied) -> RunTask | None:
    """Return the running task that ``item`` answers.

    Returns:
        None for an answer that is out of turn, stale, or of another role's type.
    """
    document = item.document
    task = run.running("pm") if isinstance(document, TaskContract) else run.tasks.get(document.task_id or "")
    if task is None or task.role != item.role or task.status != "RUNNING":
        return None
    if task.role in {"worker", "reviewer", "testrunner"} and task.attempt != run.attempt:
        return None
    if isinstance(document, TaskResult) and document.attempt != task.attempt:
        return None
    return task if _fits(item) else None


def _fits(item: RoleReplied) -> bool:
    """Return whether the document type belongs to this role."""
    return isinstance(item.document, ANSWERS[item.role] | Error)


def late(run: Run, item: RoleReplied) -> RunTask | None:
    """Return the task that ``item`` answers too late, if the ledger holds neither this answer nor another late one."""
    document = item.document
    if isinstance(document, TaskContract):
        task = next((task for task in run.tasks.values() if task.role == "pm"), None)
    else:
        task = run.tasks.get(document.task_id or "")
    if task is None or task.role != item.role or task.status == "PENDING" or task.answered_late:
        return None
    seen = run.seen_from(task.candidate)
    return None if document in (task.result, run.contract, run.plan, seen.review, seen.tests) else task
