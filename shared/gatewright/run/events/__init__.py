"""The events of a run, one class each: its fields, when it is legal, what it changes.

The wire form is ``orchestrator_event.v1`` with the fields as a plain object, so that external tools need no Python to read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gatewright.contracts.records import OrchestratorEvent
from gatewright.errors import MalformedError
from gatewright.run.events.base import RunEvent
from gatewright.run.events.judging import (
    ASKS,
    CandidateChosen,
    GateJudged,
    Landed,
    ReviewReceived,
    ReviewRouted,
    Standing,
    TestsReceived,
)
from gatewright.run.events.lifecycle import (
    RECORDING,
    AbortRequested,
    BudgetExceeded,
    BundleSealed,
    RunAccepted,
    RunExpired,
    RunFinished,
    StateEntered,
)
from gatewright.run.events.orders import (
    ContractCompiled,
    FixOrdered,
    LocksReleased,
    LocksTaken,
    LocksWaiting,
    PlanAccepted,
    TaskDispatched,
    TransferPlanned,
)
from gatewright.run.events.people import (
    ApprovalByGrant,
    ApprovalByRule,
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    LapsedWord,
    RosterHeld,
    SummonsAnswered,
    SummonsAsked,
    TargetMoved,
)
from gatewright.run.events.work import (
    AnswerIgnored,
    CandidateComposed,
    ChangedOrder,
    EnvironmentPulled,
    TaskFailed,
    TaskFinished,
    TaskInterrupted,
    UsageReported,
)
from gatewright.run.state import Run
from gatewright.run.states import Level

#: Name on the wire -> class.
EVENTS: dict[str, type[RunEvent]] = {
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
        TargetMoved,
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
        EnvironmentPulled,
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
#: Events about a bundle, which only the ledger contains.
ABOUT_BUNDLES: frozenset[str] = frozenset({BundleSealed.event_type, RunExpired.event_type})


@dataclass(frozen=True, slots=True)
class LabelledEvent:
    """An event with its envelope's labels, before it has a place in the chain.

    ``role`` is None where the gatekeeper acts on its own state.
    """

    event: RunEvent
    level: Level = "INFO"
    task_id: str | None = None
    attempt: int | None = None
    role: str | None = None


def with_labels(event: RunEvent, run: Run | None, task_id: str | None = None) -> LabelledEvent:
    """Return the event with the labels that follow from it and from ``run``.

    The decider writes labels with this function, and ``verify`` compares recorded labels with it.

    Args:
        event: the event.
        run: the run before it; None for the first event.
        task_id: the task of an ignored answer, which the event itself does not name.

    Raises:
        MalformedError: a decision cannot be decoded.
    """
    if run is None:
        return LabelledEvent(event)
    about = task_id if isinstance(event, AnswerIgnored) else event.of_task()
    return LabelledEvent(event, event.severity(run), about, run.attempt, event.speaker(run, about))


def event_of(record: OrchestratorEvent) -> RunEvent:
    """Return the typed event of a record.

    Raises:
        MalformedError: the type is unknown or the payload is invalid.
    """
    try:
        return msgspec.convert(record.payload, EVENTS[record.event_type])
    except KeyError:
        raise MalformedError(f"unknown event type {record.event_type!r}", code="unknown_event") from None
    except msgspec.ValidationError as error:
        raise MalformedError(f"event {record.seq} ({record.event_type}): {error}", code="bad_event") from error


def plain(event: RunEvent) -> dict[str, Any]:
    """Return the event's fields as JSON types."""
    converted: dict[str, Any] = msgspec.to_builtins(event)
    return converted
