"""A run as the command line shows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from gatewright.contracts import EvidenceBundle, GateReport, OrchestratorEvent
from gatewright.rules.rounds import CURABLE, ESCALATED
from gatewright.run.history import FollowedRun, begin, follow

#: Marks of a line; ``more`` continues the line above.
Mark = Literal["good", "bad", "given", "plain", "warn", "more"]


class StageLine(NamedTuple):
    """A line of a stage. ``name``: such as ``tests``. ``text`` is printable."""

    mark: Mark
    name: str
    text: str


class FileChange(NamedTuple):
    """A changed file with its added and removed lines, None where unknown. ``name`` is printable."""

    name: str
    added: int | None = None
    removed: int | None = None


@dataclass(frozen=True, slots=True)
class OutputTail:
    """The last lines of a stream, printable. ``cut``: earlier lines were left out."""

    title: str
    lines: tuple[str, ...]
    cut: bool


@dataclass(frozen=True, slots=True)
class RunView(FollowedRun):
    """A followed run with the additions of the command line. ``tails``: last lines of failed commands, where requested."""

    tails: tuple[OutputTail, ...] = ()
    #: Finished stages, where they were derived (``stages.view_with_stages``).
    stages: tuple[StageLine, ...] = ()
    #: Files of the change.
    changes: tuple[FileChange, ...] = ()
    #: Findings of a search that succeeded, where they were read.
    findings: EvidenceBundle | None = None
    #: Folder of the bundle on this host; empty where it was not searched for.
    folder: str = ""
    #: Files that the commands missed and that git does not track, where they were searched for.
    unprovided: tuple[str, ...] = ()
    #: Options that provide those of these files that exist in the checkout.
    provide: tuple[str, ...] = ()
    #: Options that confirm the proposal, where the run ended with one.
    proposed: tuple[str, ...] = ()

    @property
    def bundle(self) -> str | None:
        """Return the location of the sealed bundle: where it was found, or else where it was sealed."""
        return self.folder or (self.run.sealed.location if self.run.sealed is not None else None)

    @property
    def failing_gate(self) -> GateReport | None:
        """Return the gate report that ended the run; None where no gate did.

        A gate that only started a fix round does not count.
        """
        failure = self.run.failure
        refusals = (gate for gate in reversed(self.gates) if gate.verdict == "FAIL")
        last = next(refusals, None)
        if last is None or failure is None:
            return None
        handed_over = failure.code == ESCALATED and last.code in CURABLE and not self.run.candidates
        return last if failure.code == last.code or handed_over else None

    @property
    def seconds(self) -> float:
        """Return the seconds from acceptance to the end, or to the last event of an open run."""
        return seconds_between(self.run.created_at, self.run.finished_at or self.run.at)

    def short(self, task_id: str) -> str:
        """Return a task id without the prefix of the run id."""
        return task_id.removeprefix(self.run.run_id + ".")


def begin_view(record: OrchestratorEvent) -> RunView:
    """Return the view of a run after its first event. Raises MalformedError as ``evolve`` does."""
    first = begin(record)
    return RunView(first.run, state_since=first.state_since, finished=first.finished)


def advance(view: RunView | None, record: OrchestratorEvent) -> RunView:
    """Return the view after one more event. Raises MalformedError as ``evolve`` does."""
    return follow(view, record) if view is not None else begin_view(record)


def view_of(records: Iterable[OrchestratorEvent]) -> RunView | None:
    """Fold the events of a run into its view; None without events."""
    view: RunView | None = None
    for record in records:
        view = advance(view, record)
    return view


def moment(timestamp: str) -> datetime:
    """Parse an RFC 3339 timestamp of a document as an aware datetime."""
    return datetime.fromisoformat(timestamp)


def seconds_between(first: str, last: str) -> float:
    """Return the seconds from one timestamp to another; 0 if one is missing."""
    return max(0.0, (moment(last) - moment(first)).total_seconds()) if first and last else 0.0
