"""Durations of states and of waits for locks, from the times in the ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from gatewright.contracts.records import OrchestratorEvent, Transition
from gatewright.run import events as e
from gatewright.run.states import TERMINAL, State


@dataclass(frozen=True, slots=True)
class StateLeft:
    """The run was in ``state`` for ``seconds``. For final states: until the bundle was sealed."""

    state: State
    seconds: float


@dataclass(frozen=True, slots=True)
class LocksWaitedFor:
    """The run starts to wait for paths that others hold."""


@dataclass(frozen=True, slots=True)
class LocksHad:
    """The run holds its paths, ``seconds`` after it started to wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RunOver:
    """The run is in an end state, ``seconds`` after intake."""

    state: State
    seconds: float


Passage = StateLeft | LocksWaitedFor | LocksHad | RunOver


def passages(transitions: Sequence[Transition]) -> tuple[Passage, ...]:
    """Return what the last transition of a run ended or started. Needs all transitions, in order, for the times."""
    if not transitions:
        return ()
    first = transitions[-1].events[0].seq
    records = (record for transition in transitions for record in transition.events)
    return tuple(passage for record, passage in _all(records) if record.seq >= first)


def _all(records: Iterator[OrchestratorEvent]) -> Iterator[tuple[OrchestratorEvent, Passage]]:
    state: State = "S0"
    begun = entered = waiting = None
    for record in records:
        now = datetime.fromisoformat(record.ts)
        begun, entered = begun or now, entered or now
        match record.event_type:
            case e.StateEntered.event_type:
                yield record, StateLeft(state, _between(entered, now))
                state, entered = record.payload["state"], now
                if state in TERMINAL:
                    yield record, RunOver(state, _between(begun, now))
            case e.LocksWaiting.event_type:
                waiting = now
                yield record, LocksWaitedFor()
            case e.LocksTaken.event_type if waiting is not None:
                yield record, LocksHad(_between(waiting, now))
                waiting = None
            case e.BundleSealed.event_type:
                yield record, StateLeft(state, _between(entered, now))


def _between(earlier: datetime, later: datetime) -> float:
    """Return seconds, at least 0: clocks of two gatekeepers may differ a little."""
    return max(0.0, (later - earlier).total_seconds())
