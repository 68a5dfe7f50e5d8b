"""What can move a run: a submission, a role's answer, an abort, the gatekeeper's own next step; and the outcome of each."""

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
from gatewright.rules.summons import SummonsBounds
from gatewright.run.events import RunEvent
from gatewright.run.state import Run, TaskRole

RoleDocument = TaskContract | Plan | TaskResult | ReviewReport | TestReport | SummonsAnswer | Error


@dataclass(frozen=True, slots=True)
class Submitted:
    """A document from outside, the run it is to become, and who sent it, as the bus knew them.

    ``submitted_sha256`` is the digest of the bytes as they came, ``document_sha256`` that of the document's canonical JSON.
    """

    run_id: str
    trace_id: str
    document: RunRequest | TaskContract
    submitted_sha256: str
    message_id: str
    publisher: str = DEFAULT_PUBLISHER
    document_sha256: str = ""
    #: The publisher's own span, where the submission named one.
    caller_span: str = ""
    #: What the run id is made of, with the publisher.
    key: str = ""


@dataclass(frozen=True, slots=True)
class RoleReplied:
    """What a role published on its result subject; the subject, not the document, says which role it was."""

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
    """What people have decided about the run; all of it counts, or none."""

    decisions: tuple[SignedDecision, ...]
    message_id: str


@dataclass(frozen=True, slots=True)
class SummonsReceived:
    """Questions to roles beside the run, from a publisher that may ask them; ``bounds`` are the policy's."""

    request: SummonsRequest
    message_id: str
    publisher: str = DEFAULT_PUBLISHER
    bounds: SummonsBounds | None = None


@dataclass(frozen=True, slots=True)
class QuestionReceived:
    """What an agent asks leave for, from the process that was given its task."""

    question: AgentQuestion
    message_id: str


@dataclass(frozen=True, slots=True)
class UsageReceived:
    """What a task has used up so far; the subject says which role told it."""

    role: TaskRole
    document: UsageReport
    message_id: str


@dataclass(frozen=True, slots=True)
class DeadlineReached:
    """A moment has come that the run's own events set: its wall clock, a back-off or the time for an answer is over."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Continue:
    """Nothing from outside: the run stands where the gatekeeper itself has the next step."""

    message_id: str


@dataclass(frozen=True, slots=True)
class SealReported:
    """The bundle of an ended run has been written and signed."""

    manifest_sha256: str
    signer: str
    location: str
    message_id: str
    #: What later runs are told of it.
    memory: MemoryEntry | None = None


Input = (
    Submitted
    | RoleReplied
    | AbortReceived
    | DecisionsReceived
    | SummonsReceived
    | QuestionReceived
    | UsageReceived
    | DeadlineReached
    | Continue
    | SealReported
)


def kind(item: Input) -> str:
    """The name of an input in the ledger."""
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
    """The input counted: ``events`` are what it added to the run, which ``run`` is as it stood right after."""

    run: Run
    events: tuple[RunEvent, ...]
    transitions: tuple[Transition, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A gate refused the input itself, with ``report``; nothing was recorded."""

    run: Run | None
    report: GateReport


@dataclass(frozen=True, slots=True)
class Ignored:
    """The input did not count: it came again, out of turn, or after the end. ``run`` is the run as it stands."""

    run: Run | None


#: What became of an input.
Outcome = Recorded | Refused | Ignored
