"""The events of a run: one payload type each. An event says what has happened; ``evolve`` says what it means.

The wire form is ``orchestrator_event.v1`` with the payload as a plain object, so that outside tools need no Python to read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.people.summons import SummonsAnswer, SummonsTask
from gatewright.contracts.progress import MemoryBounds, MemoryEntry
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import (
    Error,
    GateReport,
    Plan,
    ReviewReport,
    TaskResult,
    TestReport,
)
from gatewright.contracts.routing import ReviewRouting, RoutingRules
from gatewright.contracts.run_request import RunRequest
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import Artifact, Budget, Document, Judging, MutationBounds, Usage
from gatewright.errors import MalformedError
from gatewright.ledger import payload, people_events

Payload = payload.Payload
ApprovalRequested = people_events.ApprovalRequested
ApprovalDecided = people_events.ApprovalDecided
ApprovalByRule = people_events.ApprovalByRule
ApprovalByGrant = people_events.ApprovalByGrant
ApprovalExpired = people_events.ApprovalExpired
RosterHeld = people_events.RosterHeld
LapsedWord = people_events.LapsedWord

State = Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "FAILED", "ABORTED"]
#: Parked until a person has answered; it goes on where it stood.
PARKED: Literal["AWAITING_APPROVAL"] = "AWAITING_APPROVAL"
Level = Literal["INFO", "WARN", "ERROR"]
Status = Literal["SUCCESS", "FAILED", "ABORTED"]
Ending = Literal["FAILED", "ABORTED"]

#: Which state may follow which: one way, no skipping (specification 7). Every open state may also end in FAILED or ABORTED.
SUCCESSORS: dict[State, tuple[State, ...]] = {
    "S0": ("S1",),
    "S1": ("S2", "AWAITING_APPROVAL"),
    "S2": ("S3", "S5"),
    "S3": ("S4", "S5", "AWAITING_APPROVAL"),
    "S4": ("S5", "S6", "AWAITING_APPROVAL"),
    "S5": ("S2",),
    "S6": (),
    "AWAITING_APPROVAL": ("S1", "S4", "S5"),
    "FAILED": (),
    "ABORTED": (),
}
#: Where a parked run may turn to, in the place of where it stood: people sent the change back, or gave it one more round.
SENT_BACK: dict[str, tuple[State, ...]] = {"S3": ("S5",), "S4": ("S5",)}
#: What runs record that are accepted now: see ``RunAccepted.recording``.
RECORDING: Literal[3] = 3
#: How the name of a rule begins by which a gate names a reason to ask a person; and before the class of a command, as a reason.
ASKS, COMMAND = "asks.", "command:"
TERMINAL: frozenset[State] = frozenset({"S6", "FAILED", "ABORTED"})


class RunAccepted(Payload, frozen=True):
    """The run exists. ``submitted_sha256`` is the digest of the document as it came, before anything was pinned.

    Exactly one of ``request`` and ``contract`` is set; the contract is the pinned one. ``policies`` are the digests of the
    policy files by name, ``host`` is what the gatekeeper runs on. ``publisher`` is the identity that submitted it, as the bus
    knew it (``requested_by`` is a claim); ``document_sha256`` is the digest of the document's canonical JSON, so that a
    repetition can be told from another document under the same key. ``repository_identity`` is the same for all spellings of
    ``repository_url``. These three are empty in runs older than they are. ``mutation`` is what its policy pack says of mutants,
    ``judging`` whether the test runner is asked with the reviewer or after it; runs older than the field asked in turn.
    ``caller_span`` is the publisher's own span, where the submission named one. ``approval_rules`` are the reasons for which
    the policy of the time asks a person about runs of this repository, ``routing`` the rules by which it tells how much a
    change risks; None: it does not.
    """

    event_type: ClassVar[str] = "run_accepted"
    user_request: str
    requested_by: str
    repository_url: str
    submitted_sha256: str
    policy_sha256: str
    versions: dict[str, str]
    baseline_commit: str = ""
    baseline_tree: str = ""
    request: RunRequest | None = None
    contract: TaskContract | None = None
    policies: dict[str, str] = msgspec.field(default_factory=dict)
    host: dict[str, str] = msgspec.field(default_factory=dict)
    publisher: str = ""
    document_sha256: str = ""
    repository_identity: str = ""
    mutation: MutationBounds | None = None
    caller_span: str = ""
    judging: Judging = "in_turn"
    #: The pool of each role that has several to choose from; a role that is not named has ``default``.
    pools: dict[str, str] = msgspec.field(default_factory=dict)
    approval_rules: tuple[ApprovalRule, ...] = ()
    routing: RoutingRules | None = None
    #: Whether its bundle has a progress packet, and its decisions have ids; runs older than that have neither.
    progress: bool = False
    #: How much of earlier runs on the repository it was told, where the policy lets it be told of them.
    memory: MemoryBounds | None = None
    #: Which facts its records hold: 3 when the plan gate names its plan, the run its key and the publishers that settings name,
    #: and a budget that ends the run which totals are lower bounds; 1 when they hold none of these.
    recording: Literal[1, 3] = 1
    #: What the run id is made of, with the publisher.
    idempotency_key: str = ""
    #: Publishers that the gatekeeper's settings named beside the policy file: ``policy_sha256`` holds them.
    named_publishers: tuple[str, ...] = ()
    #: Who ordered it or may have, in canonical form; empty: not known. None in older runs, which compared names byte for byte.
    orderers: tuple[str, ...] | None = None

    @property
    def repository_key(self) -> str:
        """What runs on the same repository have in common."""
        return self.repository_identity or self.repository_url


class StateEntered(Payload, frozen=True):
    event_type: ClassVar[str] = "state_entered"
    state: State


class GateJudged(Payload, frozen=True):
    """A gate has answered; failing ones are written at level ERROR and end or turn the run."""

    event_type: ClassVar[str] = "gate_judged"
    report: GateReport


class TaskDispatched(Payload, frozen=True):
    """A task is given to a role. ``contract`` is left out where the plan or the run's request already holds the document.

    ``budget`` is what the task may use up, in place of what the document says; None: what the document says.
    """

    event_type: ClassVar[str] = "task_dispatched"
    task_id: str
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    pool: str
    contract: TaskContract | None = None
    budget: Budget | None = None


class ContractCompiled(Payload, frozen=True):
    """The pm has written the contract; ``pools`` are those that fit it, in the place of those that fitted the request."""

    event_type: ClassVar[str] = "contract_compiled"
    contract: TaskContract
    pools: dict[str, str] = msgspec.field(default_factory=dict)


class PlanAccepted(Payload, frozen=True):
    event_type: ClassVar[str] = "plan_accepted"
    plan: Plan


class LocksWaiting(Payload, frozen=True):
    event_type: ClassVar[str] = "locks_waiting"
    holders: tuple[str, ...]


class LocksTaken(Payload, frozen=True):
    """The run holds its paths; ``token`` rises with every grant on the repository (fencing).

    ``repository_url`` is the key under which the paths are held: ``RunAccepted.repository_key``.
    """

    event_type: ClassVar[str] = "locks_taken"
    repository_url: str
    paths: tuple[str, ...]
    token: int


class LocksReleased(Payload, frozen=True):
    """The run gives its paths up while it waits for a person; it takes them again before it goes on."""

    event_type: ClassVar[str] = "locks_released"


class ReviewRouted(Payload, frozen=True):
    """The candidate has passed the gates before the landing: how much it risks, and who has to look at it."""

    event_type: ClassVar[str] = "review_routed"
    routing: ReviewRouting


class TransferPlanned(Payload, frozen=True):
    """What a role of the run may send to providers of models, once all that a person has to approve of it is approved."""

    event_type: ClassVar[str] = "transfer_planned"
    manifest: TransferManifest


class SummonsAsked(Payload, frozen=True):
    """A role is asked a question beside the run."""

    event_type: ClassVar[str] = "summons_asked"
    task: SummonsTask


class SummonsAnswered(Payload, frozen=True):
    """What became of it. It moves nothing."""

    event_type: ClassVar[str] = "summons_answered"
    answer: SummonsAnswer


class TaskFinished(Payload, frozen=True):
    """A worker has answered. ``accepted``: its patch passed the diff gate, and ``tree`` is what the gatekeeper computed."""

    event_type: ClassVar[str] = "task_finished"
    result: TaskResult
    accepted: bool
    tree: str = ""


class TaskFailed(Payload, frozen=True):
    """A role could not do its task."""

    event_type: ClassVar[str] = "task_failed"
    error: Error


class UsageReported(Payload, frozen=True):
    """A task has used up more than was known; ``usage`` is what one delivery of it has used all told."""

    event_type: ClassVar[str] = "usage_reported"
    task_id: str
    usage: Usage


class TaskInterrupted(Payload, frozen=True):
    """A delivery of a task has ended without an answer; it may come after the end of the run, which has ended it.

    ``usage`` is all that the delivery has used; ``artifacts`` are the records of its model calls and what else it left.
    """

    event_type: ClassVar[str] = "task_interrupted"
    task_id: str
    why: Literal["cancelled", "timed_out", "released", "failed"]
    usage: Usage
    artifacts: tuple[Artifact, ...] = ()


class BudgetExceeded(Payload, frozen=True):
    """The run ends because a budget is used up. ``used`` and ``limit`` are in the unit of the budget.

    ``task_id`` is set when a task used more than its own share, which is ``limit`` then. ``totals`` is what the run has used of
    everything, ``waiting`` what it was waiting for, in words. ``at_least`` names those of ``totals`` that are lower bounds: a
    model was being asked, its price is not known, or a reply was cut off.
    """

    event_type: ClassVar[str] = "budget_exceeded"
    budget: Literal["wall_sec", "tokens", "cost_usd", "iterations"]
    limit: int | float
    used: int | float
    totals: dict[str, int | float]
    task_id: str | None = None
    waiting: str = ""
    at_least: tuple[str, ...] = ()


class CandidateComposed(Payload, frozen=True):
    """All patches together: the tree that is reviewed, tested and landed.

    ``patch`` is the artifact of the canonical diff, ``names`` that of the changed paths, NUL-separated; ``candidate`` is its
    number of several. By policy: ``path_kinds``, paths by risk; ``versions``, how far they move where nothing else changes.
    """

    event_type: ClassVar[str] = "candidate_composed"
    tree: str
    patch: str
    names: str
    changed_files: int
    changed_lines: int | None = None
    candidate: int | None = None
    path_kinds: dict[str, int] | None = None
    versions: Literal["patch", "minor", "major"] | None = None


class ReviewReceived(Payload, frozen=True):
    event_type: ClassVar[str] = "review_received"
    report: ReviewReport


class TestsReceived(Payload, frozen=True):
    event_type: ClassVar[str] = "tests_received"
    report: TestReport


class Standing(Document, frozen=True):
    """How one of several candidates came out. ``outcome`` is ``passed``, or the code of what put it out.

    ``findings`` are the review's, ``changed_lines`` those of the canonical diff, cost and tokens those of its makers.
    ``cost_usd`` is None where a maker asked a model without a known price.
    """

    candidate: int
    outcome: str
    findings: int
    changed_lines: int
    cost_usd: float | None
    tokens: int


class CandidateChosen(Payload, frozen=True):
    """Of several candidates this one lands. ``standings`` are all of them, the best first: what the choice rests on."""

    event_type: ClassVar[str] = "candidate_chosen"
    candidate: int
    standings: tuple[Standing, ...]


class FixOrdered(Payload, frozen=True):
    """A round of the fix loop: new contracts whose parents are the failed ones, with the evidence attached."""

    event_type: ClassVar[str] = "fix_ordered"
    attempt: int
    reason: str
    contracts: tuple[TaskContract, ...]


class Landed(Payload, frozen=True):
    """The candidate is on ``ref`` (empty where nothing was to be landed); ``tree`` was compared with the tested one.

    ``found``: the commit was there, landed by this run at a time of which the ledger was lost; it names an event of that time.
    """

    event_type: ClassVar[str] = "landed"
    mode: Literal["branch", "target", "none"]
    commit: str
    tree: str
    ref: str
    previous: str | None = None
    found: bool = False


class AbortRequested(Payload, frozen=True):
    """``requested_by`` is a claim; ``publisher`` is who sent it, as the bus knew them."""

    event_type: ClassVar[str] = "abort_requested"
    reason: str
    requested_by: str
    publisher: str = ""


class RunFinished(Payload, frozen=True):
    event_type: ClassVar[str] = "run_finished"
    status: Status
    code: str
    message: str


class AnswerIgnored(Payload, frozen=True):
    """A role's answer that does not count: its task is done, or its attempt is over. The first one of each task is recorded."""

    event_type: ClassVar[str] = "answer_ignored"
    reason: Literal["task_done", "attempt_over"]
    message_id: str
    document_sha256: str


class BundleSealed(Payload, frozen=True):
    """The bundle of an ended run is on disk, whole and signed. After it comes ``run_expired`` alone.

    ``memory`` is what later runs of its publisher on its repository are told of it; None where the policy had it off.
    """

    event_type: ClassVar[str] = "bundle_sealed"
    manifest_sha256: str
    signer: str
    location: str
    memory: MemoryEntry | None = None


class RunExpired(Payload, frozen=True):
    """The last event of a run whose entries before this one the ledger keeps no longer: its sealed bundle tells them.

    It holds what must be known for good. ``accepted`` is without the document, whose digest stays, so that a key that comes
    again begins no second run. ``code`` and ``message`` are those of the end, ``by`` is who let it expire, and ``reason`` why.
    """

    event_type: ClassVar[str] = "run_expired"
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


PAYLOADS: dict[str, type[Payload]] = {
    kind.event_type: kind
    for kind in (
        RunAccepted,
        StateEntered,
        GateJudged,
        TaskDispatched,
        ContractCompiled,
        PlanAccepted,
        LocksWaiting,
        LocksTaken,
        LocksReleased,
        ApprovalRequested,
        ApprovalDecided,
        ApprovalByRule,
        ApprovalByGrant,
        ApprovalExpired,
        RosterHeld,
        ReviewRouted,
        TransferPlanned,
        SummonsAsked,
        SummonsAnswered,
        TaskFinished,
        TaskFailed,
        UsageReported,
        TaskInterrupted,
        BudgetExceeded,
        CandidateComposed,
        ReviewReceived,
        TestsReceived,
        CandidateChosen,
        FixOrdered,
        Landed,
        AbortRequested,
        AnswerIgnored,
        RunFinished,
        BundleSealed,
        RunExpired,
    )
}


#: What the ledger tells of a bundle, and no bundle holds.
ABOUT_BUNDLES: frozenset[str] = frozenset({BundleSealed.event_type, RunExpired.event_type})


@dataclass(frozen=True, slots=True)
class Event:
    """An event before it has a place in the chain."""

    payload: Payload
    level: Level = "INFO"
    task_id: str | None = None
    attempt: int | None = None
    role: str | None = None


def payload_of(record: OrchestratorEvent) -> Payload:
    """The typed payload of a recorded event. Raises MalformedError for an unknown type or a payload that does not fit."""
    try:
        return msgspec.convert(record.payload, PAYLOADS[record.event_type])
    except KeyError:
        raise MalformedError(f"unknown event type {record.event_type!r}", code="unknown_event") from None
    except msgspec.ValidationError as error:
        raise MalformedError(f"event {record.seq} ({record.event_type}): {error}", code="bad_event") from error


def plain(payload: Payload) -> dict[str, Any]:
    """The payload as JSON types."""
    converted: dict[str, Any] = msgspec.to_builtins(payload)
    return converted
