"""A run told event by event, with the run as it was before and after each, and the places in the bundle that tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory
from gatewright.run import events as e
from gatewright.run.evolve import evolve
from gatewright.run.state import Run


class Contradiction(NamedTuple):
    """``path`` and ``against`` are the two places in the bundle that cannot both be true."""

    code: str
    path: str
    against: str
    message: str


@dataclass(frozen=True, slots=True)
class Moment:
    """One event: ``before`` is the run that it happened to, ``after`` what became of it. ``gates`` counts verdicts so far.

    Of an event about one of several candidates, ``before`` is the run as it is seen from that one, which is ``candidate``;
    ``whole`` is all of it.
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
        """Its time; None for what is no time with a zone."""
        return moment_of(self.record.ts)

    def says(self, code: str, path: str, against: str, words: str) -> Contradiction:
        """A contradiction that shows in this event."""
        return Contradiction(code, path, against, f"{words} (event {self.record.seq})")


@dataclass(frozen=True, slots=True)
class Telling:
    """What every check is given: the history, its moments, and the changed paths, each ended by a NUL.

    ``names`` are those of the candidate that landed, or was to; ``names_of`` those of every one, by the URI of their list.
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
        """The changed paths of one candidate; those of the one that landed where its own list is not there."""
        return _paths(self.names_of.get(candidate.names, self.names) if candidate is not None else self.names)

    def known_changes(self, candidate: e.CandidateComposed | None) -> tuple[bytes, ...] | None:
        """The changed paths of one candidate; None where the bundle does not hold their list."""
        names = self.names_of.get(candidate.names) if candidate is not None else None
        return _paths(names) if names is not None else None


def _paths(names: bytes) -> tuple[bytes, ...]:
    return tuple(path for path in names.split(b"\0") if path)


def retell(history: RunHistory, names: bytes, names_of: Mapping[str, bytes]) -> Telling:
    """The moments of a history, without the first event, which makes the run. Raises what ``evolve`` raises."""
    moments = []
    run, gates = evolve(None, history.records[0]), 0
    for record in history.records[1:]:
        payload, before = e.event_of(record), run
        number = payload.of_candidate(before)
        run = evolve(run, record)
        gates += isinstance(payload, e.GateJudged)
        moments.append(Moment(record, payload, before.seen_from(number), run, gates, before, number))
    return Telling(history, tuple(moments), names, names_of)


def moment_of(text: str) -> datetime | None:
    """A time of RFC 3339; None for anything else."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def just_before(text: str) -> datetime | None:
    """The time, less what writing it in milliseconds may have added."""
    found = moment_of(text)
    return found - timedelta(milliseconds=1) if found is not None else None


def gate_file(number: int, report: GateReport) -> str:
    """Where the ``number``-th verdict lies."""
    return layout.gate_report(number, report.gate, report.task_id)


def verdicts(telling: Telling) -> Iterator[tuple[Moment, GateReport]]:
    """Every verdict, in order."""
    for moment in telling.moments:
        if isinstance(moment.payload, e.GateJudged):
            yield moment, moment.payload.report
