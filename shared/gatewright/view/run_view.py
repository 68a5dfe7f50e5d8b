"""A run as the command line shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.rules.rounds import CURABLE, ESCALATED
from gatewright.run.history import FollowedRun, begin, follow

#: How a line is marked; ``more`` is the next line of what stands above it.
Mark = Literal["good", "bad", "given", "plain", "warn", "more"]


class StageLine(NamedTuple):
    """``name`` of the stage, such as ``tests``; ``text`` is printable."""

    mark: Mark
    name: str
    text: str


class FileChange(NamedTuple):
    """A changed file and its lines, None where only the name is known; ``name`` is printable."""

    name: str
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class OutputTail:
    """The last lines of a stream, printable; ``cut`` when there was more before them."""

    title: str
    lines: tuple[str, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class RunView(FollowedRun):
    """A followed run with what the command line adds to it: ``tails`` are the last lines of what failed, where asked for."""

    tails: tuple[OutputTail, ...] = ()
    #: The finished stages, where they were derived (``stages.view_with_stages``).
    stages: tuple[StageLine, ...] = ()
    #: The files of the change.
    changes: tuple[FileChange, ...] = ()
    #: The folder in which the bundle was found on this host; empty where it was not looked for.
    folder: str = ""
    #: Files that the commands missed and git has not, where it was looked for them.
    unprovided: tuple[str, ...] = ()
    #: Options that provide those of them that the checkout has.
    provide: tuple[str, ...] = ()
    #: Options that confirm what was proposed, where the run ended with a proposal.
    proposed: tuple[str, ...] = ()

    @property
    def bundle(self) -> str | None:
        """Where the sealed bundle lies: where it was found, or else where it was sealed."""
        return self.folder or (self.run.sealed.location if self.run.sealed is not None else None)

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
    def seconds(self) -> float:
        """From acceptance to the end, or to the last event of an open run."""
        return seconds_between(self.run.created_at, self.run.finished_at or self.run.at)

    def short(self, task_id: str) -> str:
        """A task id without the run id before it."""
        return task_id.removeprefix(self.run.run_id + ".")


def begin_view(record: OrchestratorEvent) -> RunView:
    """The view of a run after its first event. Raises MalformedError as ``evolve`` does."""
    first = begin(record)
    return RunView(first.run, state_since=first.state_since, finished=first.finished)


def advance(view: RunView | None, record: OrchestratorEvent) -> RunView:
    """The view after one more event. Raises MalformedError as ``evolve`` does."""
    return follow(view, record) if view is not None else begin_view(record)


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
