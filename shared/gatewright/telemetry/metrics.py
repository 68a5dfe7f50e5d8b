"""Every metric that Gatewright exposes, in one list. Labels come from closed sets, never from ids, paths or foreign text.

docs/observability.md repeats the list for operators; a test holds the two together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.process_collector import ProcessCollector

import gatewright

# Else every series has a twin that says when it was first seen.
disable_created_metrics()  # type: ignore[no-untyped-call]  # the client has no types for it

#: Seconds. A task is a git fetch at the least and an agent's long work at the most.
_DURATIONS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
#: Seconds. A gate looks at trees and reports only.
_MOMENTS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """``name`` as it is scraped; a histogram has ``_bucket``, ``_sum`` and ``_count`` behind it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()


TASKS = Metric("gatewright_tasks_total", "counter", ("role", "outcome"), "Tasks that were taken, by how they ended.")
TASKS_RUNNING = Metric("gatewright_tasks_running", "gauge", ("role",), "Tasks in hand now.")
TASK_DURATION = Metric(
    "gatewright_task_duration_seconds", "histogram", ("role",), "From taking a task to settling it.", _DURATIONS
)
REDELIVERIES = Metric("gatewright_redeliveries_total", "counter", ("role",), "Tasks that had been delivered before.")
DEAD_LETTERS = Metric("gatewright_dead_letters_total", "counter", ("role", "code"), "Messages given up, by reason code.")
GATE_DECISIONS = Metric(
    "gatewright_gate_decisions_total", "counter", ("gate", "verdict", "code"), "Verdicts of the gates, by reason code."
)
GATE_DURATION = Metric("gatewright_gate_duration_seconds", "histogram", ("gate",), "Time that a gate took.", _MOMENTS)
RUNS = Metric("gatewright_runs_total", "counter", ("outcome",), "Runs that ended: success, failed or aborted.")
RUN_DURATION = Metric("gatewright_run_duration_seconds", "histogram", ("outcome",), "From intake to the end.", _DURATIONS)
LEDGER_CONFLICTS = Metric(
    "gatewright_ledger_conflicts_total", "counter", (), "Transitions that another gatekeeper had written first."
)
BUS_RECONNECTS = Metric("gatewright_bus_reconnects_total", "counter", (), "Times the connection to the bus was made anew.")
BUILD_INFO = Metric("gatewright_build_info", "gauge", ("role", "version"), "Always 1; what runs here.")

METRICS: tuple[Metric, ...] = (
    TASKS,
    TASKS_RUNNING,
    TASK_DURATION,
    REDELIVERIES,
    DEAD_LETTERS,
    GATE_DECISIONS,
    GATE_DURATION,
    RUNS,
    RUN_DURATION,
    LEDGER_CONFLICTS,
    BUS_RECONNECTS,
    BUILD_INFO,
)

#: How a task can end for the runner. ``answered``: the role's own document was published, whatever it says.
TaskOutcome = Literal["answered", "refused", "retried", "timed_out", "cancelled", "released", "exhausted", "crashed"]
RunOutcome = Literal["success", "failed", "aborted"]

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Metrics:
    """The metrics of one process, in a registry of their own. Safe to call from any thread."""

    def __init__(self, role: str) -> None:
        self.registry = CollectorRegistry()
        self._role = role
        self._counters = {metric.name: self._counter(metric) for metric in METRICS if metric.kind == "counter"}
        self._gauges = {metric.name: self._gauge(metric) for metric in METRICS if metric.kind == "gauge"}
        self._histograms = {metric.name: self._histogram(metric) for metric in METRICS if metric.kind == "histogram"}
        self._gauges[BUILD_INFO.name].labels(role, gatewright.__version__).set(1)
        ProcessCollector(registry=self.registry)

    def task_taken(self, *, redelivered: bool) -> None:
        self._gauges[TASKS_RUNNING.name].labels(self._role).inc()
        if redelivered:
            self._counters[REDELIVERIES.name].labels(self._role).inc()

    def task_ended(self, outcome: TaskOutcome, seconds: float) -> None:
        self._gauges[TASKS_RUNNING.name].labels(self._role).dec()
        self._counters[TASKS.name].labels(self._role, outcome).inc()
        self._histograms[TASK_DURATION.name].labels(self._role).observe(seconds)

    def dead_letter(self, code: str) -> None:
        self._counters[DEAD_LETTERS.name].labels(self._role, _label(code)).inc()

    def gate_decision(self, gate: str, verdict: Literal["PASS", "FAIL"], code: str, seconds: float) -> None:
        self._counters[GATE_DECISIONS.name].labels(_label(gate), verdict, _label(code)).inc()
        self._histograms[GATE_DURATION.name].labels(_label(gate)).observe(seconds)

    def run_ended(self, outcome: RunOutcome, seconds: float) -> None:
        self._counters[RUNS.name].labels(outcome).inc()
        self._histograms[RUN_DURATION.name].labels(outcome).observe(seconds)

    def ledger_conflict(self) -> None:
        self._counters[LEDGER_CONFLICTS.name].inc()

    def bus_reconnected(self) -> None:
        self._counters[BUS_RECONNECTS.name].inc()

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)

    def _gauge(self, metric: Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self.registry)

    def _histogram(self, metric: Metric) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, buckets=metric.buckets, registry=self.registry)


def _label(code: str) -> str:
    """A reason code as a label value. Codes are constants of the code; anything else must not become a time series."""
    return code if _CODE.fullmatch(code) else "other"
