"""The metrics of ``gatewright forge``: calls of forges, delay, alarms and orders, by entry of ``forges.json``."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from gatewright.errors import DeniedError, UnavailableError
from gatewright.telemetry.metric_list import FORGE_ALARMS, FORGE_BEHIND, FORGE_CALLS, FORGE_ORDERS, ForgeOutcome, Metric

T = TypeVar("T")


class ForgeMetrics:
    """The metrics of all entries, in a registry of their own."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        self._calls = self._counter(FORGE_CALLS)
        self._alarms = self._counter(FORGE_ALARMS)
        self._orders = self._counter(FORGE_ORDERS)
        self._behind = Gauge(FORGE_BEHIND.name, FORGE_BEHIND.help, FORGE_BEHIND.labels, registry=self.registry)
        for entry in entries:
            self._alarms.labels(entry)
            self._orders.labels(entry)
            self._behind.labels(entry)

    def of(self, entry: str) -> EntryMetrics:
        """Return the metrics of one entry."""
        return EntryMetrics(entry, self._calls, self._alarms, self._orders, self._behind)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format 0.0.4."""
        return generate_latest(self.registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)


class EntryMetrics:
    """The metrics of one entry."""

    def __init__(self, entry: str, calls: Counter, alarms: Counter, orders: Counter, behind: Gauge) -> None:
        self._entry = entry
        self._calls = calls
        self._alarms = alarms
        self._orders = orders
        self._behind = behind

    async def measure(self, method: str, call: Awaitable[T]) -> T:
        """Await a call of the forge, and count its outcome. Raises what it raises."""
        try:
            answer = await call
        except DeniedError:
            self.count_call(method, "denied")
            raise
        except UnavailableError:
            self.count_call(method, "unavailable")
            raise
        self.count_call(method, "ok")
        return answer

    def count_call(self, method: str, outcome: ForgeOutcome) -> None:
        self._calls.labels(self._entry, method, outcome).inc()

    def count_alarm(self) -> None:
        self._alarms.labels(self._entry).inc()

    def count_order(self) -> None:
        self._orders.labels(self._entry).inc()

    def set_behind(self, seconds: float) -> None:
        """Set the age of the oldest event that the forge does not show yet; 0: it shows everything."""
        self._behind.labels(self._entry).set(seconds)
