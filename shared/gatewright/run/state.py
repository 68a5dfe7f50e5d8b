"""State of a run: the result of its events so far. Immutable; only events create the next state (``evolve``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.contracts.people.approvals import (
    ApprovalRequest,
    ApprovalStatus,
    Delegation,
    PersonsComment,
    RosterPerson,
    SignedDecision,
)
from gatewright.contracts.people.review_votes import ConsensusReceipt, ReviewVote
from gatewright.contracts.people.summons import SummonsAnswer, SummonsTask
from gatewright.contracts.reports import GateReport, Plan, ReviewReport, TaskResult, TestReport
from gatewright.contracts.routing import ReviewRouting
from gatewright.contracts.run_request import RunRequest
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import RoleName, Usage
from gatewright.errors import MalformedError
from gatewright.run.kinds import KINDS, RunKind
from gatewright.run.states import PARKED, TERMINAL, State, Status

if TYPE_CHECKING:
    # A run contains some of its events, and events create the next run: only one direction can be a runtime import.
    from gatewright.run.events.judging import Landed
    from gatewright.run.events.lifecycle import BundleSealed, RunAccepted, RunExpired
    from gatewright.run.events.orders import LocksTaken
    from gatewright.run.events.people import ApprovalByGrant, ApprovalDecided
    from gatewright.run.events.work import CandidateComposed, ChangedOrder, EnvironmentPulled, TaskInterrupted

#: Statuses of a request by which it is approved.
AGREED: frozenset[ApprovalStatus] = frozenset({"approved", "autopilot", "granted"})
#: The ``prev_hash`` of a run's first event.
GENESIS = "0" * 64
TaskRole = Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
TaskStatus = Literal["PENDING", "RUNNING", "SUCCESS", "FAILED"]


class RunTask(Struct, frozen=True):
    """One task of a run. ``contract`` is None only for the pm, whose document is the run's request."""

    task_id: str
    role: TaskRole
    pool: str
    status: TaskStatus
    attempt: int
    contract: TaskContract | None = None
    result: TaskResult | None = None
    #: The tree that the gatekeeper computed from this worker's patch alone.
    tree: str = ""
    #: The ledger has one late answer; further ones are dropped.
    answered_late: bool = False
    #: Reported usage of each delivery.
    usage: Mapping[str, Usage] = field(default_factory=dict)
    #: Deliveries that ended without an answer, by name: their usage and remains.
    interrupted: Mapping[str, TaskInterrupted] = field(default_factory=dict)

    @property
    def candidate(self) -> int:
        """The candidate that the task is about; 0 where there is only one, or for all of them."""
        return (self.contract.candidate or 0) if self.contract is not None else 0


class CandidateState(Struct, frozen=True):
    """Progress of one of several candidates. ``failure`` is the code that eliminated it; empty while it is in the running."""

    composed: CandidateComposed | None = None
    review: ReviewReport | None = None
    reviewed: bool = False
    tests: TestReport | None = None
    tests_passed: bool = False
    failure: str = ""


class CastVote(Struct, frozen=True):
    """A vote recorded ``at`` a time; ``decided_at`` is the person's own claim.

    ``person`` is the roster entry that it was last compared with, ``signed`` the submitted document.
    """

    person: RosterPerson
    vote: ReviewVote
    decided_at: str
    at: str
    signed: SignedDecision | None = None


class AnswerText(Struct, frozen=True):
    """A person's answer to a question beside the run. ``stands``: the guess is confirmed."""

    person: str
    words: str
    stands: bool


class AskedApproval(Struct, frozen=True):
    """A request with its status; ``person`` and ``at`` are those of the answer, ``words`` those of a rejection.

    Answers to questions beside the run, and comments on one more round, are kept too. ``spoken``: the answers that have an
    effect while they are valid. ``remarks``: comments, and the text of other answers. When an approval has lapsed, ``words``
    has the reason.
    """

    request: ApprovalRequest
    status: ApprovalStatus = "pending"
    person: str = ""
    at: str = ""
    words: str = ""
    remarks: tuple[PersonsComment, ...] = ()
    votes: tuple[CastVote, ...] = ()
    consensus: ConsensusReceipt | None = None
    delegations: tuple[Delegation, ...] = ()
    answers: tuple[AnswerText, ...] = ()
    spoken: tuple[ApprovalDecided | ApprovalByGrant, ...] = ()

    @property
    def comments(self) -> tuple[str, ...]:
        """People who have commented."""
        return tuple(each.person for each in self.remarks if each.verdict == "comment")

    @property
    def approved_by(self) -> tuple[str, ...]:
        """People whose approvals count."""
        return tuple(word.approver.name for word in self.spoken if getattr(word, "verdict", "") == "approve")

    @property
    def progress(self) -> str:
        """Number of the approvals of a request that needs several, as text; empty for other requests."""
        needed, given = self.request.approvals, self.approved_by
        return f"{len(given)} of {needed} approvals{': ' if given else ''}{', '.join(given)}" if needed > 1 else ""


class AskedSummons(Struct, frozen=True):
    """A question to a role beside the run, recorded ``at`` a time, with its outcome."""

    task: SummonsTask
    pool: str
    at: str
    answer: SummonsAnswer | None = None


class FoundReason(Struct, frozen=True):
    """A gate's finding that an approval rule may cover: ``reason``, or ``reason:class``. ``candidate``: whose change."""

    reason: str
    words: str
    attempt: int
    candidate: int


#: Prefix of a reason that names the class of a command.
COMMAND = "command:"


class RunFailure(Struct, frozen=True):
    """Why a run did not succeed: a stable code and text for people."""

    code: str
    message: str


class QueuedAt(Struct, frozen=True):
    """When a run entered the merge queue: number, hash and time of that event."""

    seq: int
    head: str
    at: str


class Run(Struct, frozen=True):
    """A run after some events. ``head`` and ``seq`` are the end of its event chain, ``transitions`` its ledger messages."""

    run_id: str
    trace_id: str
    accepted: RunAccepted
    state: State = "S0"
    attempt: int = 1
    transitions: int = 0
    seq: int = 0
    head: str = GENESIS
    contract: TaskContract | None = None
    #: The chosen pool of each role that has several.
    pools: Mapping[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    tasks: dict[str, RunTask] = field(default_factory=dict)
    locks: LocksTaken | None = None
    waiting_for_locks: bool = False
    candidate: CandidateComposed | None = None
    #: The environments of the candidate's own packages, once they were pulled.
    pulled: EnvironmentPulled | None = None
    review: ReviewReport | None = None
    tests: TestReport | None = None
    tests_passed: bool = False
    #: The reviewer or tests gate's refusal of the candidate, before anything was ordered because of it.
    refusal: GateReport | None = None
    #: Progress of several candidates, by number. The fields above are those of the chosen one.
    candidates: Mapping[int, CandidateState] = field(default_factory=dict)
    chosen: int = 0
    #: Time of the last event; no later one has an earlier time.
    at: str = ""
    #: When the last fix round was ordered; it starts after the contract's back-off.
    fix_ordered_at: str = ""
    landed: Landed | None = None
    failure: RunFailure | None = None
    created_at: str = ""
    finished_at: str = ""
    sealed: BundleSealed | None = None
    #: Set once the run has expired from the ledger; the contents of its bundle are unknown here then.
    expired: RunExpired | None = None
    #: Approval requests by id, in order.
    approvals: Mapping[str, AskedApproval] = field(default_factory=dict)
    #: Time of the last roster comparison; empty after a later decision.
    roster_held_at: str = ""
    #: Commits of the refs that an open review is about, once they moved.
    moved_refs: Mapping[str, str] = field(default_factory=dict)
    found_reasons: tuple[FoundReason, ...] = ()
    #: Risk and reviewers of the candidate; None where the policy has no routing rules.
    routing: ReviewRouting | None = None
    #: What roles may send to model providers; empty where the policy has no transfer rules.
    transfers: tuple[TransferManifest, ...] = ()
    #: Questions to roles beside the run by task id, in order. They never change the state.
    summonses: Mapping[str, AskedSummons] = field(default_factory=dict)
    #: The queue gate admitted the candidate to the merge queue.
    admitted: bool = False
    #: Set once the run is in the merge queue.
    queued: QueuedAt | None = None
    #: The state in which the run was parked, and since when; empty while it is not parked.
    parked_from: State | None = None
    parked_at: str = ""
    #: Total time it was parked before.
    parked_seconds: float = 0.0

    @property
    def parked(self) -> bool:
        """Whether it waits for a person."""
        return self.state == PARKED

    @property
    def kind(self) -> RunKind:
        """Kind of the run, by the task type of its order."""
        return KINDS[self.accepted.task_type]

    @property
    def changed_order(self) -> ChangedOrder | None:
        """The order of environments for the candidate's own packages; None if it needs none."""
        return self.candidate.order if self.candidate is not None else None

    @property
    def awaits_environment(self) -> bool:
        """Whether the packages of the candidate must be pulled before its tests."""
        return self.changed_order is not None and self.pulled is None

    def has_agreed_order(self, sha256: str) -> bool:
        """Return whether an approval of the current contract is about exactly this order of environments."""
        about = (each for each in self.approvals.values() if each.request.order_sha256 == sha256)
        return any(each.status in AGREED for each in about)

    @property
    def takers(self) -> tuple[RoleName, ...]:
        """The roles of the contract's handoff chain; none without a chain that decides."""
        chain = self.contract.handoff_chain if self.contract is not None else None
        return chain.takers if chain is not None else ()

    @property
    def judges_together(self) -> bool:
        """Whether the test runner starts with the reviewer. Along a handoff chain, one role has the task at a time."""
        return self.accepted.judging == "together" and not self.takers

    @property
    def result_document(self) -> Plan | ReviewReport | TestReport | None:
        """The document that a run without a change made; the findings of a search are an artifact of its worker."""
        documents = {"plan": self.plan, "review_report": self.review, "test_report": self.tests}
        return documents.get(self.kind.result)

    @property
    def request(self) -> RunRequest | None:
        return self.accepted.request

    @property
    def publisher(self) -> str:
        """The submitter."""
        return self.accepted.publisher

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def status(self) -> Literal["RUNNING"] | Status:
        match self.state:
            case "S6":
                return "SUCCESS"
            case "FAILED" | "ABORTED":
                return self.state
            case _:
                return "RUNNING"

    def task(self, task_id: str | None) -> RunTask:
        """Return the task with that id.

        Raises:
            MalformedError: it was never dispatched (``bad_event``).
        """
        task = self.tasks.get(task_id or "")
        if task is None:
            raise MalformedError(f"a result of {(task_id or '')[:80]!r}, which was never given out", code="bad_event")
        return task

    def candidate_of_task(self, task_id: str | None) -> int:
        """Return the candidate that a task is about; 0 for a task of none, or an unknown one."""
        task = self.tasks.get(task_id or "")
        return task.candidate if task is not None else 0

    def with_tasks(self, *tasks: RunTask) -> Run:
        """Return the run with these tasks replacing those of the same ids."""
        return replace(self, tasks={**self.tasks, **{task.task_id: task for task in tasks}})

    def with_settled(self, role: TaskRole, status: TaskStatus) -> Run:
        """Return the run after the running task of a serial role ended with ``status``."""
        task = self.running(role)
        return self.with_tasks(replace(task, status=status)) if task is not None else self

    def seen_from(self, number: int) -> Run:
        """Return the run as if candidate ``number`` were its only one; the run itself for 0, which is no candidate."""
        if not number:
            return self
        state = self.candidates.get(number, CandidateState())
        return replace(
            self,
            tasks={task_id: task for task_id, task in self.tasks.items() if task.candidate in {0, number}},
            chosen=number,
            candidate=state.composed,
            review=state.review,
            tests=state.tests,
            tests_passed=state.tests_passed,
        )

    def reasons_found_now(self) -> Iterator[FoundReason]:
        """Yield the gates' findings about the current contract, or about this attempt's landing candidate."""
        for found in self.found_reasons:
            of_contract = found.reason == "broad_scope" or found.reason.startswith(COMMAND)
            if of_contract or (found.attempt == self.attempt and found.candidate in {0, self.chosen}):
                yield found

    def in_the_running(self) -> tuple[int, ...]:
        """Return the numbers of the candidates that are not eliminated."""
        return tuple(number for number, state in sorted(self.candidates.items()) if not state.failure)

    def workers(self) -> tuple[RunTask, ...]:
        """Return the worker tasks of the current attempt, in the order of the plan; once a candidate is chosen, its own."""
        return tuple(
            task
            for task in self.tasks.values()
            if task.role == "worker" and task.attempt == self.attempt and self.chosen in {0, task.candidate}
        )

    def last_task(self, role: TaskRole) -> RunTask | None:
        """Return the last task of a serial role; None without one."""
        return next((task for task in reversed(self.tasks.values()) if task.role == role), None)

    def running(self, role: TaskRole) -> RunTask | None:
        """Return the running task of a serial role (not worker); None without one."""
        return next((task for task in self.tasks.values() if task.role == role and task.status == "RUNNING"), None)


def trace_id_of(run_id: str) -> str:
    """Return the W3C trace id of a run without one from its publisher: 32 hexadecimal digits."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]


def run_id_of(key: str, publisher: str = DEFAULT_PUBLISHER) -> str:
    """Return the run id for a publisher's idempotency key: ``run-`` and 20 hexadecimal digits of a sha256.

    The default publisher's hash covers the key; a named publisher's covers byte 0xFF, the name, byte 0x00 and the key. No UTF-8
    text begins with 0xFF, so a key of one publisher never gives the run of another.
    """
    owner = b"" if publisher == DEFAULT_PUBLISHER else b"\xff" + publisher.encode() + b"\0"
    return "run-" + hashlib.sha256(owner + key.encode()).hexdigest()[:20]
