"""The state of a run: what its events so far add up to. Immutable; only events make the next state (``evolve``)."""

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
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import MalformedError
from gatewright.run.states import PARKED, TERMINAL, State, Status

if TYPE_CHECKING:
    # A run keeps some of its events, and events make the next run: at run time only the second half of that is an import.
    from gatewright.run.events.judging import Landed
    from gatewright.run.events.lifecycle import BundleSealed, RunAccepted, RunExpired
    from gatewright.run.events.orders import LocksTaken
    from gatewright.run.events.people import ApprovalByGrant, ApprovalDecided
    from gatewright.run.events.work import CandidateComposed, TaskInterrupted

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
    #: The tree that the gatekeeper got from the worker's patch alone.
    tree: str = ""
    #: An answer that did not count is in the ledger; further ones are passed over.
    answered_late: bool = False
    #: What each delivery of it has used up, as far as it was reported.
    usage: Mapping[str, Usage] = field(default_factory=dict)
    #: The deliveries of it that ended without an answer, by their names: what each has used, and left behind.
    interrupted: Mapping[str, TaskInterrupted] = field(default_factory=dict)

    @property
    def candidate(self) -> int:
        """Which of several candidates it is about; 0 where there is only one, or it is about all of them."""
        return (self.contract.candidate or 0) if self.contract is not None else 0


class CandidateState(Struct, frozen=True):
    """How far one of several candidates has come. ``failure`` is the code of what has put it out; empty while nothing has."""

    composed: CandidateComposed | None = None
    review: ReviewReport | None = None
    reviewed: bool = False
    tests: TestReport | None = None
    tests_passed: bool = False
    failure: str = ""


class CastVote(Struct, frozen=True):
    """A vote that was recorded ``at`` a time; ``decided_at`` is what the person says of when.

    ``person`` is the entry of the roster that it was last held against, ``signed`` what was brought.
    """

    person: RosterPerson
    vote: ReviewVote
    decided_at: str
    at: str
    signed: SignedDecision | None = None


class SaidWords(Struct, frozen=True):
    """What a person said to a question that is asked beside the run. ``stands``: they let the guess stand."""

    person: str
    words: str
    stands: bool


class AskedApproval(Struct, frozen=True):
    """A request and what has become of it; ``person`` and ``at`` are those of the answer, ``words`` those of a no.

    ``said`` is kept of what is asked beside the run, and of words about one more round. ``spoken``: the answers that have an
    effect while they count. ``remarks``: comments, and the words of other answers. Of a request whose yes has lapsed ``words``
    say why.
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
    said: tuple[SaidWords, ...] = ()
    spoken: tuple[ApprovalDecided | ApprovalByGrant, ...] = ()

    @property
    def comments(self) -> tuple[str, ...]:
        """Who has commented."""
        return tuple(each.person for each in self.remarks if each.verdict == "comment")


class AskedSummons(Struct, frozen=True):
    """A question to a role beside the run, which the ledger has since ``at``, and what became of it."""

    task: SummonsTask
    pool: str
    at: str
    answer: SummonsAnswer | None = None


class FoundReason(Struct, frozen=True):
    """What a gate has found that a rule may ask about: ``reason``, or ``reason:class``. ``candidate``: whose change."""

    reason: str
    words: str
    attempt: int
    candidate: int


#: How a reason begins that names the class of a command.
COMMAND = "command:"


class RunFailure(Struct, frozen=True):
    """Why a run did not succeed: a stable code and words for people."""

    code: str
    message: str


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
    #: The pool of each role that has several to choose from.
    pools: Mapping[str, str] = field(default_factory=dict)
    plan: Plan | None = None
    tasks: dict[str, RunTask] = field(default_factory=dict)
    locks: LocksTaken | None = None
    waiting_for_locks: bool = False
    candidate: CandidateComposed | None = None
    review: ReviewReport | None = None
    tests: TestReport | None = None
    tests_passed: bool = False
    #: What the reviewer's or the tests' gate refuses the candidate for, while nothing was ordered because of it.
    refusal: GateReport | None = None
    #: Where several make the change: how far each has come, by number. What stands above is that of the chosen one.
    candidates: Mapping[int, CandidateState] = field(default_factory=dict)
    chosen: int = 0
    #: When the last event was written; no later one has an earlier time.
    at: str = ""
    #: When the fix loop was last entered; the next round begins after the contract's back-off.
    fix_ordered_at: str = ""
    landed: Landed | None = None
    failure: RunFailure | None = None
    created_at: str = ""
    finished_at: str = ""
    sealed: BundleSealed | None = None
    #: Set once the ledger has let go of the run's entries; what its bundle tells is not known here then.
    expired: RunExpired | None = None
    #: What people were asked, by id of the request, in the order of asking.
    approvals: Mapping[str, AskedApproval] = field(default_factory=dict)
    #: When the roster was last held against all of that; empty once something was said after it.
    roster_held_at: str = ""
    found_reasons: tuple[FoundReason, ...] = ()
    #: How much the candidate risks, and who has to look at it; None where the policy has no rules of it.
    routing: ReviewRouting | None = None
    #: What roles may send to providers of models; empty where the policy has no rules of it.
    transfers: tuple[TransferManifest, ...] = ()
    #: What roles were asked beside the run, by id of the task, in the order of asking. It moves nothing.
    summonses: Mapping[str, AskedSummons] = field(default_factory=dict)
    #: Where the run stood when it was parked, and since when it is; empty while it is not.
    parked_from: State | None = None
    parked_at: str = ""
    #: How long it was parked before.
    parked_seconds: float = 0.0

    @property
    def parked(self) -> bool:
        """Whether it waits for a person."""
        return self.state == PARKED

    @property
    def request(self) -> RunRequest | None:
        return self.accepted.request

    @property
    def publisher(self) -> str:
        """Who submitted it."""
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
        """The task of that id. Raises MalformedError (``bad_event``) for one that was never given out."""
        task = self.tasks.get(task_id or "")
        if task is None:
            raise MalformedError(f"a result of {(task_id or '')[:80]!r}, which was never given out", code="bad_event")
        return task

    def candidate_of_task(self, task_id: str | None) -> int:
        """The number of the candidate that a task is about; 0 for a task of none, or an unknown one."""
        task = self.tasks.get(task_id or "")
        return task.candidate if task is not None else 0

    def with_tasks(self, *tasks: RunTask) -> Run:
        """The run with these tasks in the place of those of the same id."""
        return replace(self, tasks={**self.tasks, **{task.task_id: task for task in tasks}})

    def with_settled(self, role: TaskRole, status: TaskStatus) -> Run:
        """The run after the running task of a serial role has ended with ``status``."""
        task = self.running(role)
        return self.with_tasks(replace(task, status=status)) if task is not None else self

    def seen_from(self, number: int) -> Run:
        """The run as if candidate ``number`` were its only one; the run itself for 0, which is no candidate."""
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
        """What gates found in what the run has now: in the contract, or in this attempt's candidate that is to land."""
        for found in self.found_reasons:
            of_contract = found.reason == "broad_scope" or found.reason.startswith(COMMAND)
            if of_contract or (found.attempt == self.attempt and found.candidate in {0, self.chosen}):
                yield found

    def in_the_running(self) -> tuple[int, ...]:
        """The numbers of the candidates that no event has put out."""
        return tuple(number for number, state in sorted(self.candidates.items()) if not state.failure)

    def workers(self) -> tuple[RunTask, ...]:
        """The worker tasks of the current attempt, in the order of the plan; once a candidate is chosen, its own."""
        return tuple(
            task
            for task in self.tasks.values()
            if task.role == "worker" and task.attempt == self.attempt and self.chosen in {0, task.candidate}
        )

    def last_task(self, role: TaskRole) -> RunTask | None:
        """The task that a serial role was last given; None where it was given none."""
        return next((task for task in reversed(self.tasks.values()) if task.role == role), None)

    def running(self, role: TaskRole) -> RunTask | None:
        """The one task of a serial role (not worker) that is being done now."""
        return next((task for task in self.tasks.values() if task.role == role and task.status == "RUNNING"), None)


def trace_id_of(run_id: str) -> str:
    """The W3C trace id of a run whose publisher gave none: 32 hexadecimal digits."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:32]


def run_id_of(key: str, publisher: str = DEFAULT_PUBLISHER) -> str:
    """The run id that an idempotency key of a publisher leads to: ``run-`` and 20 hexadecimal digits of a sha256.

    It is that of the key; for a publisher with a name, that of byte 0xFF, the name, byte 0x00 and the key. No text begins with
    0xFF in UTF-8, so no key of one publisher leads to the run of another.
    """
    owner = b"" if publisher == DEFAULT_PUBLISHER else b"\xff" + publisher.encode() + b"\0"
    return "run-" + hashlib.sha256(owner + key.encode()).hexdigest()[:20]
