"""Which tasks are in hand, when each was last claimed, and of which nothing is heard. Pure: it is told what comes, and when.

Every gatekeeper hears all claims and keeps them for itself, in memory: a claim is in no ledger. All times are those of this
process's own monotonic clock, when a claim arrived here: what clocks of other hosts say is shown, and never compared. What one
process could not hear (it was started just now, stood still or had no connection) is held against no task.
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
    """An answer's event; the document in it names the task under whichever field it stands."""

    result: _About | None = None
    error: _About | None = None
    report: _About | None = None


_DISPATCHED = JsonReader(_Dispatched)
_ANSWERED = JsonReader(_Answered)
#: Answers that name no task: they end what that role has in hand.
_ANSWERS_OF: dict[str, TaskRole] = {e.ContractCompiled.event_type: "pm", e.PlanAccepted.event_type: "techlead"}
_NAMED = frozenset({kind.event_type for kind in (e.TaskFinished, e.TaskFailed, e.ReviewReceived, e.TestsReceived)})
#: All that was in hand is so no more.
_ENDS = frozenset({e.RunFinished.event_type, e.FixOrdered.event_type}) | e.ABOUT_BUNDLES


@dataclass(frozen=True, slots=True)
class TaskLife:
    """What is known of a task in hand: ``last`` is when it was given out or last claimed, ``claim`` what was claimed then."""

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
    """Told the ledger and the claims. ``since``: from when on this process hears claims; None: it hears none now."""

    policy: BeatsPolicy = QUARTER_HOURS
    since: float | None = None
    _runs: dict[str, dict[str, _InHand]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Runs that have a task in hand."""
        return len(self._runs)

    def saw(self, entry: LedgerEntry, now: float, age: float = 0.0) -> None:
        """Take note of an entry of the ledger, which is ``age`` seconds old."""
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
                return  # whatever loads the run says so
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
        """Whether the task is in hand, as one of that role's: of no other is a claim listened to."""
        task = self._of(claim.run_id).get(claim.task_id)
        return task is not None and task.role == claim.role

    def claimed(self, claim: StatusClaim, now: float) -> bool:
        """Take note of a claim that came in now; False for one that is awaited of no such task."""
        if not self.awaits(claim):
            return False
        task = self._runs[claim.run_id][claim.task_id]
        task.last, task.claim = now, claim
        return True

    def hears(self, now: float) -> None:
        """From now on claims are heard (again): those before may have been missed."""
        self.since = now

    def deaf(self) -> None:
        """Claims are not heard now: no task is called silent."""
        self.since = None

    def tasks(self, run_id: str, now: float) -> dict[str, TaskLife]:
        """The tasks in hand of a run, by id."""
        return {name: TaskLife(task.last, task.claim, self._quiet(task, now)) for name, task in self._of(run_id).items()}

    def silent_since(self, run_id: str, now: float) -> float | None:
        """Since when a run is silent, by the clock of ``now``; None while it is not.

        A task that was claimed before and is no more makes it so. One that was never claimed may be waiting for a free process:
        it does while no other task of the run is claimed.
        """
        tasks = self._of(run_id).values()
        quiet = [task for task in tasks if self._quiet(task, now)]
        lost = [task for task in quiet if task.claim is not None or len(quiet) == len(tasks)]
        return min((task.last for task in lost), default=None)

    def count(self, now: float) -> float:
        """How many runs are silent; NaN while that cannot be told."""
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
