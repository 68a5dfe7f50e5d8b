"""Replay of a run event by event, with the run before and after each, and the bundle files that record it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.rules.people.signing_times import read_time
from gatewright.run import events as e
from gatewright.run.evolve import evolve
from gatewright.run.state import Run

moment_of = read_time


class Contradiction(NamedTuple):
    """``path`` and ``against`` are the two places in the bundle that contradict each other."""

    code: str
    path: str
    against: str
    message: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One event: ``before`` and ``after`` are the run before and after it. ``gates`` is the number of verdicts so far.

    For an event about one of several candidates, ``before`` is the run as seen from ``candidate``; ``whole`` is all of it.
    """

    record: OrchestratorEvent
    payload: e.RunEvent
    before: Run
    after: Run
    gates: int
    whole: Run
    candidate: int = 0

    @property
    def when(self) -> datetime | None:
        """Its time; None for an invalid time or one without a zone."""
        return moment_of(self.record.ts)

    def contradiction(self, code: str, path: str, against: str, words: str) -> Contradiction:
        """Return a contradiction found at this event."""
        return Contradiction(code, path, against, f"{words} (event {self.record.seq})")


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """Input of every check: the history, its moments, and the changed paths, each terminated by a NUL.

    ``names`` are those of the landed or intended candidate; ``names_of`` those of every candidate, by the URI of their list.
    """

    history: RunHistory
    moments: tuple[Moment, ...]
    names: bytes
    names_of: Mapping[str, bytes]

    @property
    def run(self) -> Run:
        return self.history.run

    @property
    def changed(self) -> tuple[bytes, ...]:
        return _paths(self.names)

    def changed_by(self, candidate: e.CandidateComposed | None) -> tuple[bytes, ...]:
        """Return the changed paths of one candidate; those of the landed one when its list is missing."""
        return _paths(self.names_of.get(candidate.names, self.names) if candidate is not None else self.names)

    def known_changes(self, candidate: e.CandidateComposed | None) -> tuple[bytes, ...] | None:
        """Return the changed paths of one candidate; None when the bundle lacks their list."""
        names = self.names_of.get(candidate.names) if candidate is not None else None
        return _paths(names) if names is not None else None


def _paths(names: bytes) -> tuple[bytes, ...]:
    return tuple(path for path in names.split(b"\0") if path)


def replay_history(history: RunHistory, names: bytes, names_of: Mapping[str, bytes]) -> ReplayedRun:
    """Return the moments of a history, without the first event, which creates the run. Raises what ``evolve`` raises."""
    moments = []
    run, gates = evolve(None, history.records[0]), 0
    for record in history.records[1:]:
        payload, before = e.event_of(record), run
        number = payload.of_candidate(before)
        run = evolve(run, record)
        gates += isinstance(payload, e.GateJudged)
        moments.append(Moment(record, payload, before.seen_from(number), run, gates, before, number))
    return ReplayedRun(history, tuple(moments), names, names_of)


def just_before(text: str) -> datetime | None:
    """Parse a time and subtract the maximum rounding error of milliseconds."""
    found = moment_of(text)
    return found - timedelta(milliseconds=1) if found is not None else None


def gate_file(number: int, report: GateReport) -> str:
    """Return the path of the ``number``-th verdict."""
    return layout.gate_report(number, report.gate, report.task_id)


def verdicts(replayed: ReplayedRun) -> Iterator[tuple[Moment, GateReport]]:
    """Yield every verdict, in order."""
    for moment in replayed.moments:
        if isinstance(moment.payload, e.GateJudged):
            yield moment, moment.payload.report
