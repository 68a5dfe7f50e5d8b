"""Events of a run's life: accepted, its states, its end, its bundle, its expiry."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Final, Literal

import msgspec
from msgspec.structs import replace

from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.progress import MemoryBounds, MemoryEntry
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.routing import RoutingRules
from gatewright.contracts.run_request import RunRequest
from gatewright.contracts.task_contract import TaskContract, TaskType
from gatewright.contracts.vocabulary import Judging, MutationBounds, keep_one_spelling
from gatewright.errors import MalformedError
from gatewright.run.events.base import RunEvent
from gatewright.run.events.judging import Landed
from gatewright.run.state import QueuedAt, Run, RunFailure
from gatewright.run.states import PARKED, QUEUED, SENT_BACK, TERMINAL, WAITING, Level, State, Status

#: Form of the records of runs: see ``RunAccepted.recording``.
RECORDING: Final = 3
#: States that are entered on an error, or in which the run waits for a person.
_LEVELS: dict[State, Level] = {"FAILED": "ERROR", "ABORTED": "WARN", "S5": "WARN", PARKED: "WARN"}


class RunAccepted(RunEvent, frozen=True):
    """The run exists. ``submitted_sha256`` is the digest of the received document, before anything was pinned.

    Exactly one of ``request`` and ``contract`` is set; the contract is the pinned one. ``policies`` are the digests of the
    policy files by name, ``host`` describes the gatekeeper's host. ``publisher`` is the identity that submitted it, as
    authenticated by the bus (``requested_by`` is a claim). ``document_sha256`` is the digest of the document's canonical JSON,
    to distinguish a repetition from another document under the same key. The run id is derived from ``idempotency_key`` and the
    publisher. ``orderers`` are all people who ordered or may have ordered it, in canonical form; empty: unknown.
    ``repository_identity`` is the same for all spellings of ``repository_url``. ``mutation`` has its policy pack's rules on
    mutants, ``judging`` whether the test runner starts with the reviewer or after it. ``caller_span`` is the publisher's own
    span, if the submission named one. ``approval_rules`` are the rules of that time for runs of this repository, ``routing``
    the rules for the risk of a change; None: no routing.

    ``recording`` is the form of the run's records. There is one, and ``verify`` applies all its rules to every run: a run with
    a choice of forms could choose its own rules.
    """

    event_type: ClassVar[str] = "run_accepted"
    user_request: str
    requested_by: str
    repository_url: str
    submitted_sha256: str
    policy_sha256: str
    versions: dict[str, str]
    publisher: str
    document_sha256: str
    idempotency_key: str
    orderers: tuple[str, ...]
    recording: int
    baseline_commit: str = ""
    baseline_tree: str = ""
    request: RunRequest | None = None
    contract: TaskContract | None = None
    policies: dict[str, str] = msgspec.field(default_factory=dict)
    host: dict[str, str] = msgspec.field(default_factory=dict)
    repository_identity: str = ""
    mutation: MutationBounds | None = None
    caller_span: str = ""
    judging: Judging = "in_turn"
    #: The chosen pool of each role that has several; a missing role has ``default``.
    pools: dict[str, str] = msgspec.field(default_factory=dict)
    approval_rules: tuple[ApprovalRule, ...] = ()
    routing: RoutingRules | None = None
    #: Bounds of the memory of earlier runs, where policy permits memory.
    memory: MemoryBounds | None = None
    #: Publishers in the gatekeeper's settings in addition to the policy file: ``policy_sha256`` includes them.
    named_publishers: tuple[str, ...] = ()
    #: Task type of the order, which decides the kind of the run.
    task_type: TaskType = "IMPLEMENT"

    def __post_init__(self) -> None:
        """Raises ValueError for another form."""
        keep_one_spelling(self, "task_type")
        if self.recording != RECORDING:
            raise ValueError(f"the run is recorded in form {self.recording}, and this version reads form {RECORDING} alone")

    @property
    def repository_key(self) -> str:
        """Common key of runs on the same repository."""
        return self.repository_identity or self.repository_url

    def begin(self, record: OrchestratorEvent) -> Run:
        """Create the run from this event, its first."""
        return Run(
            run_id=record.run_id,
            trace_id=record.trace_id,
            accepted=self,
            contract=self.contract,
            pools=self.pools,
            created_at=record.ts,
            seq=record.seq,
            head=record.hash,
            at=record.ts,
        )

    def may_follow(self, run: Run) -> str:
        del run
        return "a run is accepted once, by its first event"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del run, record
        raise MalformedError(f"{self.event_type} cannot happen here", code="bad_event")


class StateEntered(RunEvent, frozen=True):
    event_type: ClassVar[str] = "state_entered"
    role_label: ClassVar[str | None] = None
    state: State

    def may_follow(self, run: Run) -> str:
        """Check the order of states, and that the state's preconditions hold."""
        match self.state:
            case "S1":
                grounds = run.contract is not None
            case "S2" if not run.kind.plans:
                grounds = run.contract is not None
            case "S2":
                grounds = run.locks is not None and (run.state == "S1" or bool(run.fix_ordered_at))
            case "S3":
                composed = [run.candidates[number].composed is not None for number in run.in_the_running()]
                grounds = run.candidate is not None or (bool(composed) and all(composed))
            case "S4" if run.kind.reviews:
                reviewed = [run.candidates[number].reviewed for number in run.in_the_running()]
                grounds = run.review is not None or (bool(reviewed) and all(reviewed))
            case "S4":
                grounds = run.candidate is not None
            case "QUEUED":
                grounds = run.tests_passed and run.candidate is not None and run.admitted
            case "S6" if run.kind.lands:
                grounds = run.landed is not None
            case "S6":
                found = {"S1": run.plan is not None, "S3": run.review is not None, "S4": run.tests_passed}
                grounds = found.get(run.state, False)
            case _:
                grounds = True
        return "" if grounds else f"{self.state} is entered without what it rests on"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Enter the state. Raises MalformedError also for a state that may not come next."""
        allowed = (*run.kind.successors[run.state], "FAILED", "ABORTED") if not run.ended else ()
        goes_on = {run.parked_from, *SENT_BACK.get(run.parked_from or "", ()), "FAILED", "ABORTED"}
        if self.state not in allowed or (run.parked and self.state not in goes_on):
            raise MalformedError(f"{self.state} may not follow {run.state}", code="bad_event")
        if self.state == QUEUED:
            run = replace(run, queued=QueuedAt(record.seq, record.hash, record.ts))
        if self.state in WAITING:
            return replace(run, state=self.state, parked_from=run.state, parked_at=record.ts)
        if run.state in WAITING:
            waited = (datetime.fromisoformat(record.ts) - datetime.fromisoformat(run.parked_at)).total_seconds()
            run = replace(run, parked_from=None, parked_at="", parked_seconds=run.parked_seconds + max(0.0, waited))
        return replace(run, state=self.state)

    def severity(self, run: Run) -> Level:
        del run
        return _LEVELS.get(self.state, "INFO")


class BudgetExceeded(RunEvent, frozen=True):
    """The run ends because a budget is exhausted. ``used`` and ``limit`` are in the unit of the budget.

    ``task_id`` is set when a task exceeded its own share, which is ``limit`` then. ``totals`` is the run's usage of everything,
    ``waiting`` what it was waiting for, as text. ``at_least`` names the ``totals`` that are lower bounds: a model call was in
    progress, its price is unknown, or a reply was truncated.
    """

    event_type: ClassVar[str] = "budget_exceeded"
    level: ClassVar[Level] = "ERROR"
    budget: Literal["wall_sec", "tokens", "cost_usd", "iterations"]
    limit: int | float
    used: int | float
    totals: dict[str, int | float]
    task_id: str | None = None
    waiting: str = ""
    at_least: tuple[str, ...] = ()

    def of_task(self) -> str | None:
        return self.task_id


class AbortRequested(RunEvent, frozen=True):
    """``requested_by`` is a claim; ``publisher`` is the sender, as authenticated by the bus."""

    event_type: ClassVar[str] = "abort_requested"
    role_label: ClassVar[str | None] = None
    level: ClassVar[Level] = "WARN"
    reason: str
    requested_by: str
    publisher: str = ""


class RunFinished(RunEvent, frozen=True):
    event_type: ClassVar[str] = "run_finished"
    after_end: ClassVar[bool] = True
    role_label: ClassVar[str | None] = None
    status: Status
    code: str
    message: str

    def may_follow(self, run: Run) -> str:
        return "" if run.ended and not run.finished_at else "the run ends once, after it has reached its last state"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        failure = None if self.status == "SUCCESS" else RunFailure(self.code, self.message)
        return replace(run, failure=failure, finished_at=record.ts)

    def severity(self, run: Run) -> Level:
        del run
        return "INFO" if self.status == "SUCCESS" else "ERROR"


class BundleSealed(RunEvent, frozen=True):
    """The bundle of an ended run is on disk, complete and signed. Only ``run_expired`` may follow.

    ``memory`` is the memory entry for later runs of its publisher on its repository; None when policy disabled memory.
    """

    event_type: ClassVar[str] = "bundle_sealed"
    after_end: ClassVar[bool] = True
    role_label: ClassVar[str | None] = None
    manifest_sha256: str
    signer: str
    location: str
    memory: MemoryEntry | None = None

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, sealed=self)

    def without_memory(self) -> BundleSealed:
        """Return the same seal without its memory entry."""
        return replace(self, memory=None)


class RunExpired(RunEvent, frozen=True):
    """The last event of a run whose earlier entries the ledger no longer has: its sealed bundle has them.

    It has the permanent facts. ``accepted`` is without the document, but with its digest, so that a repeated key starts no
    second run. ``code`` and ``message`` are those of the end, ``by`` is who expired it, and ``reason`` why.
    """

    event_type: ClassVar[str] = "run_expired"
    after_end: ClassVar[bool] = True
    accepted: RunAccepted
    sealed: BundleSealed
    state: Literal["S6", "FAILED", "ABORTED"]
    attempt: int
    created_at: str
    finished_at: str
    code: str
    message: str
    by: str
    reason: str
    landed: Landed | None = None

    def end(self, run: Run | None, record: OrchestratorEvent) -> Run:
        """Return the run as this event, its last, describes it, whether or not earlier events are known.

        Raises MalformedError (``bad_event``): no event precedes it, or it describes another end than the earlier events.
        """
        if run is not None and run.seq + 1 == record.seq:
            if run.sealed is None or run.sealed.without_memory() != self.sealed.without_memory() or run.expired is not None:
                raise MalformedError(f"{run.run_id} cannot expire here", code="bad_event")
            return replace(run, expired=self, seq=record.seq, head=record.hash, at=record.ts)
        if record.seq < 2 or self.state not in TERMINAL:
            raise MalformedError("a run expires after its end", code="bad_event")
        return Run(
            run_id=record.run_id,
            trace_id=record.trace_id,
            accepted=self.accepted,
            state=self.state,
            attempt=self.attempt,
            seq=record.seq,
            head=record.hash,
            at=record.ts,
            landed=self.landed,
            failure=None if self.state == "S6" else RunFailure(self.code, self.message),
            created_at=self.created_at,
            finished_at=self.finished_at,
            sealed=self.sealed,
            expired=self,
        )
