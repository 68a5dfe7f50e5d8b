"""Inputs that can move a run: a submission, a role's answer, an abort, the gatekeeper's own next step; and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.contracts import (
    AbortRequest,
    AgentQuestion,
    Error,
    GateReport,
    Plan,
    ReviewReport,
    RunRequest,
    SummonsAnswer,
    SummonsRequest,
    TaskContract,
    TaskResult,
    TestReport,
    UsageReport,
)
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.progress import MemoryEntry
from gatewright.contracts.records import Transition
from gatewright.rules.drift import Drift
from gatewright.rules.summons import SummonsBounds
from gatewright.run.events import RunEvent
from gatewright.run.state import Run, TaskRole

RoleDocument = TaskContract | Plan | TaskResult | ReviewReport | TestReport | SummonsAnswer | Error


@dataclass(frozen=True, slots=True)
class Submitted:
    """A document from outside, the id of its future run, and its sender as authenticated by the bus.

    ``submitted_sha256`` is the digest of the received bytes, ``document_sha256`` that of the document's canonical JSON.
    """

    run_id: str
    trace_id: str
    document: RunRequest | TaskContract
    submitted_sha256: str
    message_id: str
    publisher: str = DEFAULT_PUBLISHER
    document_sha256: str = ""
    #: Span of the publisher, if the submission carried one.
    caller_span: str = ""
    #: Idempotency key; the run id is derived from it and the publisher.
    key: str = ""


@dataclass(frozen=True, slots=True)
class RoleReplied:
    """A document that a role published on its result subject. The subject, not the document, identifies the role."""

    role: TaskRole
    document: RoleDocument
    message_id: str


@dataclass(frozen=True, slots=True)
class AbortReceived:
    request: AbortRequest
    message_id: str
    publisher: str = DEFAULT_PUBLISHER


@dataclass(frozen=True, slots=True)
class DecisionsReceived:
    """Decisions of people about the run. They take effect together or not at all."""

    decisions: tuple[SignedDecision, ...]
    message_id: str


@dataclass(frozen=True, slots=True)
class SummonsReceived:
    """Questions to roles beside the run, from an authorised publisher; ``bounds`` are the policy's limits."""

    request: SummonsRequest
    message_id: str
    publisher: str = DEFAULT_PUBLISHER
    bounds: SummonsBounds | None = None


@dataclass(frozen=True, slots=True)
class QuestionReceived:
    """A permission request of an agent, from the process that holds its task."""

    question: AgentQuestion
    message_id: str


@dataclass(frozen=True, slots=True)
class BaseObserved:
    """The target branch of a run under review has moved. ``before_vote``: a vote follows, and is about the new base."""

    drift: Drift
    message_id: str
    before_vote: bool = False


@dataclass(frozen=True, slots=True)
class UsageReceived:
    """Usage of a task so far. The subject identifies the reporting role."""

    role: TaskRole
    document: UsageReport
    message_id: str


@dataclass(frozen=True, slots=True)
class DeadlineReached:
    """A deadline from the run's own events has passed: its wall time, a back-off, or the time for an answer."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Continue:
    """No external input: the next step is the gatekeeper's own."""

    message_id: str


@dataclass(frozen=True, slots=True)
class SealReported:
    """The bundle of an ended run is written and signed."""

    manifest_sha256: str
    signer: str
    location: str
    message_id: str
    #: Memory entry for later runs.
    memory: MemoryEntry | None = None


Input = (
    Submitted
    | RoleReplied
    | AbortReceived
    | DecisionsReceived
    | SummonsReceived
    | QuestionReceived
    | BaseObserved
    | UsageReceived
    | DeadlineReached
    | Continue
    | SealReported
)


def kind(item: Input) -> str:
    """Return the ledger's name for the class of an input."""
    match item:
        case Submitted():
            return "submitted"
        case RoleReplied(role=role):
            return f"answered.{role}"
        case AbortReceived():
            return "abort"
        case DecisionsReceived():
            return "decided"
        case SummonsReceived():
            return "summons"
        case QuestionReceived():
            return "question"
        case BaseObserved():
            return "base"
        case UsageReceived(role=role):
            return f"usage.{role}"
        case DeadlineReached():
            return "time"
        case Continue():
            return "continue"
        case SealReported():
            return "sealed"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The input took effect: ``events`` were added, and ``run`` is the run right after them."""

    run: Run
    events: tuple[RunEvent, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A gate refused the input itself, with ``report``. Nothing was recorded."""

    run: Run | None
    report: GateReport


@dataclass(frozen=True, slots=True)
class Ignored:
    """The input had no effect: a duplicate, out of turn, or after the end. ``run`` is the unchanged run."""

    run: Run | None


#: Outcome of an input.
Outcome = Recorded | Refused | Ignored
