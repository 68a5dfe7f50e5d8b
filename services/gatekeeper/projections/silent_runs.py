"""Tasks in progress with their last claims; detects silent runs. Pure: messages and times are passed in.

Every gatekeeper receives all claims and keeps them in memory; no ledger contains them. All times are arrival times on this
process's monotonic clock. Times of other hosts are displayed but never compared. While a process could not receive claims (just
started, suspended, disconnected), no task is treated as silent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from gatewright.contracts import StatusClaim
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.run import events as e
from gatewright.services.gatekeeper.policies.dispatch import QUARTER_HOURS, BeatsPolicy
from gatewright.services.gatekeeper.projections.entries import EntryEvent, LedgerEntry

TaskRole = Literal["pm", "techlead", "worker", "reviewer", "testrunner"]


class _Dispatched(msgspec.Struct, frozen=True):
    task_id: str
    role: TaskRole


class _About(msgspec.Struct, frozen=True):
    task_id: str | None = None


class _Answered(msgspec.Struct, frozen=True):
    """An answer's event; the document in it names the task in one of these fields."""

    result: _About | None = None
    error: _About | None = None
    report: _About | None = None


_DISPATCHED = JsonReader(_Dispatched)
_ANSWERED = JsonReader(_Answered)
#: Answers without a task id: they end the task of that role.
_ANSWERS_OF: dict[str, TaskRole] = {e.ContractCompiled.event_type: "pm", e.PlanAccepted.event_type: "techlead"}
_NAMED = frozenset({kind.event_type for kind in (e.TaskFinished, e.TaskFailed, e.ReviewReceived, e.TestsReceived)})
#: Events that end all tasks in progress.
_ENDS = frozenset({e.RunFinished.event_type, e.FixOrdered.event_type}) | e.ABOUT_BUNDLES


@dataclass(frozen=True, slots=True)
class TaskLife:
    """A task in progress: ``last`` is when it was dispatched or last claimed, ``claim`` is the last claim."""

    last: float
    claim: StatusClaim | None
    silent: bool


@dataclass(slots=True)
class _InHand:
    role: TaskRole
    last: float
    claim: StatusClaim | None = None


@dataclass
class SilentRuns:
    """Projection of ledger and claims. ``since``: when this process started to receive claims; None while it receives none."""

    policy: BeatsPolicy = QUARTER_HOURS
    since: float | None = None
    _runs: dict[str, dict[str, _InHand]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of runs with a task in progress."""
        return len(self._runs)

    def saw(self, entry: LedgerEntry, now: float, age: float = 0.0) -> None:
        """Apply a ledger entry that is ``age`` seconds old."""
        for event in entry.events:
            self._saw(entry.run_id, event, now - max(0.0, age))

    def _saw(self, run_id: str, event: EntryEvent, when: float) -> None:
        kind = event.event_type
        if kind in _ENDS:
            self._runs.pop(run_id, None)
        elif kind == e.TaskDispatched.event_type:
            try:
                given = _DISPATCHED.decode(event.payload)
            except UnreadableDocumentError:
                return  # loading the run reports it
            self._runs.setdefault(run_id, {})[given.task_id] = _InHand(given.role, when)
        elif kind in _ANSWERS_OF:
            self._drop(run_id, [name for name, task in self._of(run_id).items() if task.role == _ANSWERS_OF[kind]])
        elif kind in _NAMED:
            self._drop(run_id, _named_tasks(event))

    def _of(self, run_id: str) -> dict[str, _InHand]:
        return self._runs.get(run_id, {})

    def _drop(self, run_id: str, names: list[str]) -> None:
        tasks = self._of(run_id)
        for name in names:
            tasks.pop(name, None)
        if not tasks:
            self._runs.pop(run_id, None)

    def awaits(self, claim: StatusClaim) -> bool:
        """Return whether the task is in progress with that role. Other claims are ignored."""
        task = self._of(claim.run_id).get(claim.task_id)
        return task is not None and task.role == claim.role

    def claimed(self, claim: StatusClaim, now: float) -> bool:
        """Record a new claim. Return False when no such task is in progress, or its process has sent a newer claim."""
        if not self.awaits(claim):
            return False
        task = self._runs[claim.run_id][claim.task_id]
        if (last := task.claim) and (claim.process, claim.since) == (last.process, last.since) and claim.beat <= last.beat:
            return False
        task.last, task.claim = now, claim
        return True

    def hears(self, now: float) -> None:
        """Start to receive claims (again); earlier ones may have been missed."""
        self.since = now

    def deaf(self) -> None:
        """Stop receiving claims: no task is treated as silent."""
        self.since = None

    def tasks(self, run_id: str, now: float) -> dict[str, TaskLife]:
        """Return the tasks in progress of a run, by id."""
        return {name: TaskLife(task.last, task.claim, self._quiet(task, now)) for name, task in self._of(run_id).items()}

    def silent_since(self, run_id: str, now: float) -> float | None:
        """Return since when a run is silent, by the clock of ``now``; None while it is not silent.

        A task that was claimed before and is no longer claimed makes the run silent. A task without any claim may be waiting
        for a free process, as long as no other task of the run is claimed.
        """
        tasks = self._of(run_id).values()
        quiet = [task for task in tasks if self._quiet(task, now)]
        lost = [task for task in quiet if task.claim is not None or len(quiet) == len(tasks)]
        return min((task.last for task in lost), default=None)

    def count(self, now: float) -> float:
        """Return the number of silent runs; NaN while it is unknown."""
        if self.since is None:
            return math.nan
        return float(sum(self.silent_since(run_id, now) is not None for run_id in self._runs))

    def _quiet(self, task: _InHand, now: float) -> bool:
        return self.since is not None and now - max(task.last, self.since) > self.policy.silence


def _named_tasks(event: EntryEvent) -> list[str]:
    try:
        answer = _ANSWERED.decode(event.payload)
    except UnreadableDocumentError:
        return []
    return [about.task_id for about in (answer.result, answer.error, answer.report) if about is not None and about.task_id]
