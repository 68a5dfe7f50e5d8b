"""A run as the command line shows it: the folded run, every gate's verdict, and when each task was given out.

A read model: it folds the same events with the same ``evolve`` as the gatekeeper, and keeps what that one may forget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.reasons import Family
from gatewright.rules.rounds import CURABLE, ESCALATED
from gatewright.run import events as e
from gatewright.run.evolve import evolve
from gatewright.run.families import ToldFamilies, failure_family, told_after
from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class OutputTail:
    """The last lines of a stream, printable; ``cut`` when there was more before them."""

    title: str
    lines: tuple[str, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class RunView:
    """``dispatched``: by task id, when it was last given out (RFC 3339); ``bundle`` is where the bundle lies, if it does.

    ``tails`` are the last lines of what failed, where they were asked for. ``families`` are those that came with reason codes.
    ``lock_holders`` are the runs that held its paths when it began to wait for them, at ``locks_since``.
    """

    run: Run
    gates: tuple[GateReport, ...] = ()
    dispatched: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None
    last: str = ""
    tails: tuple[OutputTail, ...] = ()
    families: ToldFamilies = field(default_factory=dict)
    #: Files that the commands missed and git has not, where it was looked for them.
    unprovided: tuple[str, ...] = ()
    #: Options that provide those of them that the checkout has.
    provide: tuple[str, ...] = ()
    #: Options that confirm what was proposed, where the run ended with a proposal.
    proposed: tuple[str, ...] = ()
    lock_holders: tuple[str, ...] = ()
    locks_since: str = ""

    @property
    def failing_gate(self) -> GateReport | None:
        """The gate that ended the run; None where it was no gate, although one may have ordered a round of fixing before."""
        failure = self.run.failure
        refusals = (gate for gate in reversed(self.gates) if gate.verdict == "FAIL")
        last = next(refusals, None)
        if last is None or failure is None:
            return None
        handed_over = failure.code == ESCALATED and last.code in CURABLE and not self.run.candidates
        return last if failure.code == last.code or handed_over else None

    @property
    def failure_family(self) -> Family | None:
        """The family of the reason that the run ended with, as its gate or role told it; None where it has not failed."""
        failure = self.run.failure
        return failure_family(failure.code, self.families) if failure is not None else None

    @property
    def seconds(self) -> float:
        """From acceptance to the end, or to the last event of an open run."""
        return seconds_between(self.run.created_at, self.run.finished_at or self.last)

    def short(self, task_id: str) -> str:
        """A task id without the run id before it."""
        return task_id.removeprefix(self.run.run_id + ".")


def advance(view: RunView | None, record: OrchestratorEvent) -> RunView:
    """The view after one more event. Raises MalformedError as ``evolve`` does."""
    run = evolve(view.run if view else None, record)
    view = replace(view, run=run, last=record.ts) if view else RunView(run, last=record.ts)
    payload = e.event_of(record)
    view = replace(view, families=told_after(view.families, payload))
    match payload:
        case e.GateJudged(report=report):
            return replace(view, gates=(*view.gates, report))
        case e.TaskDispatched(task_id=task_id):
            return replace(view, dispatched={**view.dispatched, task_id: record.ts})
        case e.LocksWaiting(holders=holders):
            return replace(view, lock_holders=holders, locks_since=record.ts)
        case e.BundleSealed(location=location) | e.RunExpired(sealed=e.BundleSealed(location=location)):
            return replace(view, bundle=location)
        case _:
            return view


def view_of(records: Iterable[OrchestratorEvent]) -> RunView | None:
    """The view that a run's events add up to; None for none."""
    view: RunView | None = None
    for record in records:
        view = advance(view, record)
    return view


def moment(timestamp: str) -> datetime:
    """An RFC 3339 timestamp of a document as an aware datetime."""
    return datetime.fromisoformat(timestamp)


def seconds_between(first: str, last: str) -> float:
    """Seconds from one timestamp to another; 0 where one is missing."""
    return max(0.0, (moment(last) - moment(first)).total_seconds()) if first and last else 0.0
