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
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.vocabulary import Judging, MutationBounds
from gatewright.errors import MalformedError
from gatewright.run.events.base import RunEvent
from gatewright.run.events.judging import Landed
from gatewright.run.state import Run, RunFailure
from gatewright.run.states import PARKED, SENT_BACK, SUCCESSORS, TERMINAL, Level, State, Status

#: The form of what runs record: see ``RunAccepted.recording``.
RECORDING: Final = 3
#: States that a run enters because something went wrong, or in which it waits for a person.
_LEVELS: dict[State, Level] = {"FAILED": "ERROR", "ABORTED": "WARN", "S5": "WARN", PARKED: "WARN"}


class RunAccepted(RunEvent, frozen=True):
    """The run exists. ``submitted_sha256`` is the digest of the document as it came, before anything was pinned.

    Exactly one of ``request`` and ``contract`` is set; the contract is the pinned one. ``policies`` are the digests of the
    policy files by name, ``host`` is what the gatekeeper runs on. ``publisher`` is the identity that submitted it, as the bus
    knew it (``requested_by`` is a claim); ``document_sha256`` is the digest of the document's canonical JSON, so that a
    repetition can be told from another document under the same key. ``idempotency_key`` is what the run id is made of, with
    the publisher. ``orderers`` are all who ordered it or may have, in canonical form; empty: not known.
    ``repository_identity`` is the same for all spellings of ``repository_url``. ``mutation`` is what its policy pack says of
    mutants, ``judging`` whether the test runner is asked with the reviewer or after it. ``caller_span`` is the publisher's own
    span, where the submission named one. ``approval_rules`` are the reasons for which the policy of the time asks a person
    about runs of this repository, ``routing`` the rules by which it tells how much a change risks; None: it does not.

    ``recording`` is the form of what the run records. There is one, and ``verify`` holds every run to all rules of it: a run
    that could name another would choose the rules that it is held to.
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
    #: The pool of each role that has several to choose from; a role that is not named has ``default``.
    pools: dict[str, str] = msgspec.field(default_factory=dict)
    approval_rules: tuple[ApprovalRule, ...] = ()
    routing: RoutingRules | None = None
    #: How much of earlier runs on the repository it was told, where the policy lets it be told of them.
    memory: MemoryBounds | None = None
    #: Publishers that the gatekeeper's settings named beside the policy file: ``policy_sha256`` holds them.
    named_publishers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError for another form."""
        if self.recording != RECORDING:
            raise ValueError(f"the run is recorded in form {self.recording}, and this version reads form {RECORDING} alone")

    @property
    def repository_key(self) -> str:
        """What runs on the same repository have in common."""
        return self.repository_identity or self.repository_url

    def begin(self, record: OrchestratorEvent) -> Run:
        """The run that this event, its first, makes."""
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
        """A state is entered in its turn, and once what it rests on is there."""
        match self.state:
            case "S1":
                grounds = run.contract is not None
            case "S2":
                grounds = run.locks is not None and (run.state == "S1" or bool(run.fix_ordered_at))
            case "S3":
                composed = [run.candidates[number].composed is not None for number in run.in_the_running()]
                grounds = run.candidate is not None or (bool(composed) and all(composed))
            case "S4":
                reviewed = [run.candidates[number].reviewed for number in run.in_the_running()]
                grounds = run.review is not None or (bool(reviewed) and all(reviewed))
            case "S6":
                grounds = run.landed is not None
            case _:
                grounds = True
        return "" if grounds else f"{self.state} is entered without what it rests on"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Raises MalformedError also for a state that may not come next."""
        allowed = (*SUCCESSORS[run.state], "FAILED", "ABORTED") if not run.ended else ()
        goes_on = {run.parked_from, *SENT_BACK.get(run.parked_from or "", ()), "FAILED", "ABORTED"}
        if self.state not in allowed or (run.parked and self.state not in goes_on):
            raise MalformedError(f"{self.state} may not follow {run.state}", code="bad_event")
        if self.state == PARKED:
            return replace(run, state=self.state, parked_from=run.state, parked_at=record.ts)
        if run.parked:
            waited = (datetime.fromisoformat(record.ts) - datetime.fromisoformat(run.parked_at)).total_seconds()
            run = replace(run, parked_from=None, parked_at="", parked_seconds=run.parked_seconds + max(0.0, waited))
        return replace(run, state=self.state)

    def severity(self, run: Run) -> Level:
        del run
        return _LEVELS.get(self.state, "INFO")


class BudgetExceeded(RunEvent, frozen=True):
    """The run ends because a budget is used up. ``used`` and ``limit`` are in the unit of the budget.

    ``task_id`` is set when a task used more than its own share, which is ``limit`` then. ``totals`` is what the run has used of
    everything, ``waiting`` what it was waiting for, in words. ``at_least`` names those of ``totals`` that are lower bounds: a
    model was being asked, its price is not known, or a reply was cut off.
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
    """``requested_by`` is a claim; ``publisher`` is who sent it, as the bus knew them."""

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
        return "" if run.ended and not run.finished_at else "the run ends once, when it has come to its last state"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        failure = None if self.status == "SUCCESS" else RunFailure(self.code, self.message)
        return replace(run, failure=failure, finished_at=record.ts)

    def severity(self, run: Run) -> Level:
        del run
        return "INFO" if self.status == "SUCCESS" else "ERROR"


class BundleSealed(RunEvent, frozen=True):
    """The bundle of an ended run is on disk, whole and signed. After it comes ``run_expired`` alone.

    ``memory`` is what later runs of its publisher on its repository are told of it; None where the policy had it off.
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
        """The same seal, without what later runs are told of this one."""
        return replace(self, memory=None)


class RunExpired(RunEvent, frozen=True):
    """The last event of a run whose entries before this one the ledger keeps no longer: its sealed bundle tells them.

    It holds what must be known for good. ``accepted`` is without the document, whose digest stays, so that a key that comes
    again begins no second run. ``code`` and ``message`` are those of the end, ``by`` is who let it expire, and ``reason`` why.
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
        """The run as this event, its last, describes it, whether or not the events before it are known.

        Raises MalformedError (``bad_event``): nothing came before it, or it describes another end than the events before it.
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
