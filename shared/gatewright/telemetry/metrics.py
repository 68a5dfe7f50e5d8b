"""The metrics of one process, for Prometheus to scrape. ``metric_list.py`` defines them.

The number of time series is bounded for any input: most label values are closed sets by their types, and of reason codes
and gates only a limited number is distinguished.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.process_collector import ProcessCollector

from gatewright.contracts.queue_policy import LeaveCode
from gatewright.telemetry import metric_list as m
from gatewright.telemetry.metric_list import (
    METRICS,
    ClaimOutcome,
    Metric,
    PublisherRoom,
    QueueClass,
    QueueName,
    RunOutcome,
    SandboxUse,
    Stage,
    SubmissionOutcome,
    TaskOutcome,
)
from gatewright.version import __version__

__all__ = ["METRICS", "OTHER", "Metric", "Metrics", "QueueLook", "RunOutcome", "TaskOutcome"]

# Otherwise every series has a twin with its creation time.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no types for it

#: Maximum number of distinct values of a label; further ones are ``other``.
MOST_VALUES = 100
OTHER = "other"

_OF_QUEUES = (m.QUEUE_DEPTH, m.QUEUE_OLDEST_AGE, m.QUEUE_OPEN_PULLS, m.QUEUE_UNATTENDED, m.QUEUE_PAUSED)
_TRACE = re.compile(r"[0-9a-f]{32}")  # noqa: TID251 - linear: of a fixed length
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


@dataclass(frozen=True, slots=True)
class QueueLook:
    """A queue at one moment: waiting messages, delivered messages, open requests for work; ``oldest`` in seconds.

    ``unattended``: messages that wait while no worker requests any and none is delivered.
    """

    waiting: int = 0
    in_hand: int = 0
    pulls: int = 0
    paused: bool = False
    oldest: float = 0.0
    unattended: int = 0

    def __add__(self, other: QueueLook) -> QueueLook:
        """Return the sum, for pools that are not distinguished."""
        return QueueLook(
            self.waiting + other.waiting,
            self.in_hand + other.in_hand,
            self.pulls + other.pulls,
            self.paused or other.paused,
            max(self.oldest, other.oldest),
            self.unattended + other.unattended,
        )


@dataclass(slots=True)
class _Vocabulary:
    """The values of a label that is not closed by its type. Codes are constants of the code, so few; foreign text is not."""

    known: set[str] = field(default_factory=set)

    def value(self, word: str) -> str:
        if word in self.known:
            return word
        if len(self.known) >= MOST_VALUES or not _CODE.fullmatch(word):
            return OTHER
        self.known.add(word)
        return word


def _exemplar(trace_id: str) -> dict[str, str] | None:
    """Return the trace of an observation; invalid ids, which come from outside, are left out."""
    return {"trace_id": trace_id} if _TRACE.fullmatch(trace_id) else None


class Metrics:
    """The metrics of one process, in a registry of their own. Safe to call from any thread."""

    def __init__(self, role: str) -> None:
        self.registry = CollectorRegistry()
        #: Dead letters that no operator has decided about; None: not known.
        self.open_dead_letters: int | None = None
        self._role = role
        self._counters = {metric.name: self._counter(metric) for metric in METRICS if metric.kind == "counter"}
        self._gauges = {metric.name: self._gauge(metric) for metric in METRICS if metric.kind == "gauge"}
        self._histograms = {metric.name: self._histogram(metric) for metric in METRICS if metric.kind == "histogram"}
        self._codes, self._gates = _Vocabulary(), _Vocabulary()
        self._gauges[m.BUILD_INFO.name].labels(role, __version__).set(1)
        self._gauges[m.READY.name].labels(role).set(0)
        self._gauges[m.STORAGE_FAILING.name].labels(role).set(0)
        self.dead_letters_open(None)
        self.runs_silent(math.nan)
        self._begin_at_zero()
        ProcessCollector(registry=self.registry)

    def _begin_at_zero(self) -> None:
        """Create known series at 0: Prometheus sees no increase in a series that begins at 1."""
        if self._role == "gatekeeper":
            for ending in get_args(RunOutcome):
                self._counters[m.RUNS.name].labels(ending)
            for code in get_args(LeaveCode):
                self._counters[m.MERGE_LEFT.name].labels(code)
            return
        for outcome in get_args(TaskOutcome):
            self._counters[m.TASKS.name].labels(self._role, outcome)
        for use in get_args(SandboxUse):
            self._counters[m.SANDBOX_FAILURES.name].labels(self._role, use)
        self._counters[m.REDELIVERIES.name].labels(self._role)
        self._gauges[m.TASKS_RUNNING.name].labels(self._role)

    def task_taken(self, *, redelivered: bool) -> None:
        self._gauges[m.TASKS_RUNNING.name].labels(self._role).inc()
        if redelivered:
            self._counters[m.REDELIVERIES.name].labels(self._role).inc()

    def task_ended(self, outcome: TaskOutcome, seconds: float, trace_id: str = "") -> None:
        self._gauges[m.TASKS_RUNNING.name].labels(self._role).dec()
        self._counters[m.TASKS.name].labels(self._role, outcome).inc()
        self._histograms[m.TASK_DURATION.name].labels(self._role).observe(seconds, _exemplar(trace_id))

    def dead_letter(self, code: str) -> None:
        self._counters[m.DEAD_LETTERS.name].labels(self._role, self._codes.value(code)).inc()

    def sandbox_failed(self, during: SandboxUse) -> None:
        self._counters[m.SANDBOX_FAILURES.name].labels(self._role, during).inc()

    def submission(self, outcome: SubmissionOutcome, code: str = "ok") -> None:
        self._counters[m.SUBMISSIONS.name].labels(outcome, self._codes.value(code)).inc()

    def gate_decision(self, gate: str, verdict: Literal["PASS", "FAIL"], code: str, seconds: float, trace_id: str = "") -> None:
        gate = self._gates.value(gate)
        self._counters[m.GATE_DECISIONS.name].labels(gate, verdict, self._codes.value(code)).inc()
        self._histograms[m.GATE_DURATION.name].labels(gate).observe(seconds, _exemplar(trace_id))

    def run_ended(self, outcome: RunOutcome, seconds: float, trace_id: str = "") -> None:
        self._counters[m.RUNS.name].labels(outcome).inc()
        self._histograms[m.RUN_DURATION.name].labels(outcome).observe(seconds, _exemplar(trace_id))

    def stage_left(self, stage: Stage, seconds: float, trace_id: str = "") -> None:
        self._histograms[m.STAGE_DURATION.name].labels(stage).observe(seconds, _exemplar(trace_id))

    def lock_waited_for(self) -> None:
        """A run begins to wait for paths."""
        self._counters[m.LOCK_WAITS.name].inc()

    def lock_wait_over(self, seconds: float) -> None:
        self._histograms[m.LOCK_WAIT_DURATION.name].observe(seconds)

    def merge_queues(self, *, entries: int, held: int) -> None:
        """Set the number of entries of all merge queues, and of held queues."""
        self._gauges[m.MERGE_ENTRIES.name].set(entries)
        self._gauges[m.MERGE_HELD.name].set(held)

    def merge_landed(self, waits: Iterable[float]) -> None:
        """Record one push; ``waits``: seconds that each of its runs was queued. Only the gatekeeper that appended it calls."""
        self._counters[m.MERGE_LANDINGS.name].inc()
        for seconds in waits:
            self._histograms[m.MERGE_TIME_TO_LAND.name].observe(seconds)

    def merge_left(self, code: LeaveCode) -> None:
        """Record a run that left a merge queue without landing."""
        self._counters[m.MERGE_LEFT.name].labels(code).inc()

    def merge_position_red(self) -> None:
        """Record a position whose red result is final."""
        self._counters[m.MERGE_RED_POSITIONS.name].inc()

    def ledger_conflict(self) -> None:
        self._counters[m.LEDGER_CONFLICTS.name].inc()

    def ledger_foreign_message(self) -> None:
        self._counters[m.LEDGER_FOREIGN.name].inc()

    def bundles_owed(self, number: int) -> None:
        self._gauges[m.BUNDLES_OWED.name].set(number)

    def runs_silent(self, number: float) -> None:
        """Set the number of silent runs; NaN: unknown."""
        self._gauges[m.RUNS_SILENT.name].set(number)

    def status_claim(self, role: str, outcome: ClaimOutcome) -> None:
        """A claim came in; ``role`` is one of the roles that take tasks."""
        self._counters[m.STATUS_CLAIMS.name].labels(role, outcome).inc()

    def bus_reconnected(self) -> None:
        self._counters[m.BUS_RECONNECTS.name].inc()

    def show_readiness(self, ready: Callable[[], bool]) -> None:
        """Ask ``ready`` at every scrape."""
        self._gauges[m.READY.name].labels(self._role).set_function(ready)

    def show_storage(self, failing: Callable[[], bool]) -> None:
        """Ask ``failing`` at every scrape."""
        self._gauges[m.STORAGE_FAILING.name].labels(self._role).set_function(failing)

    def queues(self, looks: Mapping[tuple[QueueName, str, QueueClass], QueueLook]) -> None:
        """Show these queues and no others; none at all when they cannot be looked at now."""
        gauges = {metric: self._gauges[metric.name] for metric in _OF_QUEUES}
        for gauge in gauges.values():
            gauge.clear()
        for label, look in looks.items():
            gauges[m.QUEUE_DEPTH].labels(*label, "waiting").set(look.waiting)
            gauges[m.QUEUE_DEPTH].labels(*label, "in_hand").set(look.in_hand)
            gauges[m.QUEUE_OLDEST_AGE].labels(*label).set(look.oldest)
            gauges[m.QUEUE_OPEN_PULLS].labels(*label).set(look.pulls)
            gauges[m.QUEUE_UNATTENDED].labels(*label).set(look.unattended)
            gauges[m.QUEUE_PAUSED].labels(*label).set(look.paused)

    def publisher_rooms(self, rooms: Mapping[tuple[str, PublisherRoom], float]) -> None:
        """Show how full the streams of these publishers are, and no others."""
        gauge = self._gauges[m.PUBLISHER_ROOM.name]
        gauge.clear()
        for label, used in rooms.items():
            gauge.labels(*label).set(used)

    def budgets_used(self, shares: Mapping[str, float]) -> None:
        """Show the used share of these budgets, and no others."""
        gauge = self._gauges[m.BUDGET_USED.name]
        gauge.clear()
        for name, share in shares.items():
            gauge.labels(name).set(share)

    def dead_letters_open(self, number: int | None) -> None:
        """Show how many dead letters wait for a decision; None: it is not known now."""
        self.open_dead_letters = number
        self._gauges[m.DEAD_LETTERS_OPEN.name].set(math.nan if number is None else number)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format 0.0.4."""
        return generate_latest(self.registry)

    def open_exposition(self) -> bytes:
        """Return all metrics in the OpenMetrics text format 1.0.0, which supports exemplars: one trace per bucket."""
        shown: bytes = generate_open_metrics(self.registry)  # type: ignore[no-untyped-call]  # the client has no types for it
        return shown

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self.registry)
