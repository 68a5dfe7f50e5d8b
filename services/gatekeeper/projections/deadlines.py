"""Deadlines from runs' own events: an expired wall time, the end of a back-off. It decides nothing.

It reads every ledger message, of its own gatekeeper's runs and of others, so any gatekeeper ends a run in time, also right
after a start. The decider interprets a deadline, once: the ledger accepts one of several equal inputs.
"""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from gatewright.contracts.people.approvals import LEFT_OPEN
from gatewright.errors import GatewrightError, UnavailableError
from gatewright.foreign_documents import JsonReader
from gatewright.host_errors import host_errors
from gatewright.pause import pause_unless
from gatewright.rules.summons import GRACE
from gatewright.run.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ContractCompiled,
    FixOrdered,
    RunAccepted,
    StateEntered,
    SummonsAnswered,
    SummonsAsked,
    TargetMoved,
)
from gatewright.run.states import TERMINAL, WAITING
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.entries import EntryEvent, LedgerEntry

#: Seconds between two checks of the clock, and until a deadline without effect is checked again.
TICK = 0.1
AGAIN = 1.0
#: Maximum deadlines of ended runs in the queue.
_LEFT_OVER = 64
#: Times in the ledger have milliseconds: beyond this margin every process agrees that a deadline has passed.
_MARGIN = 0.005


class _Budget(msgspec.Struct):
    wall_sec: float | None = None


class _Retry(msgspec.Struct):
    retry_backoff_sec: float = 0.0


class _Order(msgspec.Struct):
    budget: _Budget | None = None
    timeout_retry: _Retry | None = None


class _Ordered(msgspec.Struct):
    contract: _Order | None = None
    request: _Order | None = None


class _Entered(msgspec.Struct):
    state: str


class _Request(msgspec.Struct):
    request_id: str
    expires_at: str
    stage: str = ""
    approvals: int = 1


class _Requested(msgspec.Struct):
    request: _Request


class _Answered(msgspec.Struct):
    request_id: str
    verdict: str = ""
    consensus: dict[str, msgspec.Raw] | None = None


class _Void(msgspec.Struct):
    requests: tuple[str, ...] = ()


class _Question(msgspec.Struct):
    task_id: str
    timeout_sec: float = 0.0
    advice: str | None = None


class _Summoned(msgspec.Struct):
    task: _Question


class _SummonAnswered(msgspec.Struct):
    answer: _Question


_VOID = JsonReader(_Void)
_SUMMONED = JsonReader(_Summoned)
_SUMMON_ANSWERED = JsonReader(_SummonAnswered)
_ORDERED = JsonReader(_Ordered)
_ENTERED = JsonReader(_Entered)
_REQUESTED = JsonReader(_Requested)
_ANSWERED = JsonReader(_Answered)


@dataclass(slots=True)
class _Moments:
    """Deadlines of one run, in seconds since 1970.

    ``again``: next check although nothing has changed; ``queued``: the deadline under which the run is in the queue.
    """

    accepted: float = 0.0
    wall: float | None = None
    back_off: float = 0.0
    fixing: float | None = None
    again: float = 0.0
    queued: float | None = None
    #: Start of the wait for people or in the merge queue, when the wall time stands still; and the deadline of each answer.
    parked: float | None = None
    answers: dict[str, float] = field(default_factory=dict)
    #: Requests that need several approvals: one approval does not end the wait.
    several: set[str] = field(default_factory=set)
    #: Deadline of each answer that the run does not wait for.
    beside: dict[str, float] = field(default_factory=dict)

    def next(self) -> float | None:
        ends = list(self.beside.values())
        if self.parked is not None:
            ends += self.answers.values()
            return max(min(ends) + _MARGIN, self.again) if ends else None
        ends += [] if self.wall is None else [self.accepted + self.wall]
        ends += [] if self.fixing is None else [self.fixing + self.back_off]
        return max(min(ends) + _MARGIN, self.again) if ends else None


@dataclass
class Deadlines:
    """The open runs with a future deadline. One per process."""

    _runs: dict[str, _Moments] = field(default_factory=dict)
    _queue: list[tuple[float, str]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._runs)

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry."""
        try:
            for event in entry.events:
                self._note(entry.run_id, event)
        except ValueError:
            return  # not a ledger entry
        self._line_up(entry.run_id)

    def due(self, now: float) -> tuple[str, ...]:
        """Return the runs with a passed deadline. Each is returned once until ``looked`` is called."""
        found: list[str] = []
        while self._queue and self._queue[0][0] <= now:
            moment, run_id = heapq.heappop(self._queue)
            moments = self._runs.get(run_id)
            if moments is not None and moments.queued == moment:
                moments.queued = None
                found.append(run_id)
        return tuple(found)

    def looked(self, run_id: str, now: float) -> None:
        """Record that a run was checked. Unless it ends or moves, it is checked again."""
        if run_id in self._runs:
            self._runs[run_id].again = now + AGAIN
            self._line_up(run_id)

    def forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        if len(self._queue) > 2 * len(self._runs) + _LEFT_OVER:
            # Otherwise runs that ended long before their deadlines would fill the queue.
            self._queue = [(moments.queued, run) for run, moments in self._runs.items() if moments.queued is not None]
            heapq.heapify(self._queue)

    async def keep(self, orchestrator: Orchestrator, stop: asyncio.Event) -> None:
        """Send every passed deadline to the orchestrator until shutdown."""
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                for run_id in self.due(orchestrator.clock.now().timestamp()):
                    group.create_task(self._ring(run_id, orchestrator))
                await pause_unless(stop, TICK)

    async def _ring(self, run_id: str, orchestrator: Orchestrator) -> None:
        try:
            with host_errors():
                await orchestrator.advance(run_id, DeadlineReached(f"{run_id}:time"))
        except UnavailableError as error:
            orchestrator.log.warning("run_left_for_later", run_id=run_id, code=error.reason, cause=error.message)
        except GatewrightError as error:
            orchestrator.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named
            self.forget(run_id)
        self.looked(run_id, orchestrator.clock.now().timestamp())

    def _note(self, run_id: str, event: EntryEvent) -> None:
        moments = self._runs.get(run_id, _Moments())
        match event.event_type:
            case RunAccepted.event_type | ContractCompiled.event_type:
                if event.event_type == RunAccepted.event_type:
                    moments.accepted = _seconds(event.ts)
                ordered = _ORDERED.decode(event.payload)
                order = ordered.contract or ordered.request or _Order()
                moments.wall = order.budget.wall_sec if order.budget else None
                moments.back_off = order.timeout_retry.retry_backoff_sec if order.timeout_retry else 0.0
                self._runs[run_id] = moments
            case FixOrdered.event_type:
                moments.fixing = _seconds(event.ts)
            case ApprovalRequested.event_type:
                request = _REQUESTED.decode(event.payload).request
                answers = moments.beside if request.stage == "beside" else moments.answers
                answers[request.request_id] = _seconds(request.expires_at)
                if request.approvals > 1:
                    moments.several.add(request.request_id)
            case ApprovalDecided.event_type | ApprovalExpired.event_type:
                answer = _ANSWERED.decode(event.payload)
                open_still = answer.verdict == "vote" and answer.consensus is None
                open_still = open_still or (answer.verdict == "approve" and answer.request_id in moments.several)
                if answer.verdict not in LEFT_OPEN and not open_still:
                    moments.answers.pop(answer.request_id, None)
                    moments.beside.pop(answer.request_id, None)
            case StateEntered.event_type:
                self._enter(run_id, moments, _ENTERED.decode(event.payload).state, _seconds(event.ts))
            case _:
                _note_question(moments, event)

    def _enter(self, run_id: str, moments: _Moments, state: str, when: float) -> None:
        if state in TERMINAL:
            self.forget(run_id)
            return
        if state in WAITING:
            moments.parked = when
        elif moments.parked is not None:
            moments.accepted += max(0.0, when - moments.parked)
            moments.parked = None
            moments.answers.clear()
        if state != "S5":
            moments.fixing = None

    def _line_up(self, run_id: str) -> None:
        moments = self._runs.get(run_id)
        moment = moments.next() if moments is not None else None
        if moments is not None and moments.queued != moment:
            moments.queued = moment
            if moment is not None:
                heapq.heappush(self._queue, (moment, run_id))


def _note_question(moments: _Moments, event: EntryEvent) -> None:
    """Apply a question of the gatekeeper to a role, its answer, or the void requests of a review."""
    match event.event_type:
        case TargetMoved.event_type:
            for name in _VOID.decode(event.payload).requests:
                moments.answers.pop(name, None)
        case SummonsAsked.event_type:
            task = _SUMMONED.decode(event.payload).task
            if task.advice is not None:
                moments.beside[task.task_id] = _seconds(event.ts) + task.timeout_sec + GRACE
        case SummonsAnswered.event_type:
            moments.beside.pop(_SUMMON_ANSWERED.decode(event.payload).answer.task_id, None)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()
