"""``--yes --every HOURS``: a process that plays one round of retention after another, and what it shows of them.

With ``gc --ledger`` it is the one process that has both identities of the bus; with ``refs tidy --expired`` it has what deletes
branches, and no identity. So it listens to nothing but requests for its metrics, runs no code of a repository, and has no task
of a run. A round that fails is told and tried again; it never ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from structlog.typing import FilteringBoundLogger

from gatewright.app.cli import settings
from gatewright.app.retention.policy_round import RoundOutcome
from gatewright.clock import Clock, SystemClock
from gatewright.errors import ConfigurationError, GatewrightError, MalformedError
from gatewright.telemetry.health import METRICS_TEXT, OFF, HealthServer, Page, verdict_page
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metric_list import EXPIRED, EXPIRY_LAST_ROUND, EXPIRY_LEFT, EXPIRY_METRICS, Metric

#: Seconds after which a round that failed is tried again, if the next one is not due before.
RETRY_SECONDS = 600.0
#: Of what the bus keeps, or of branches alone.
Rounds = Literal["bus", "branches"]


def refuse_without_yes(*, yes: bool) -> None:
    """Raises MalformedError: rounds that nothing comes of are not played for hours."""
    if not yes:
        raise MalformedError("--every does what the plan says: it goes with --yes", code="invalid_input")


async def play_rounds(play: Callable[[asyncio.Event], Awaitable[RoundOutcome]], hours: float, rounds: Rounds) -> None:
    """Until the process is told to leave. ``play`` is given the event that tells it so.

    Raises ConfigurationError where the first round cannot be played by what the process was given.
    """
    chosen = settings.load()
    log = make_logger().bind(role="expiry")
    process: ExpiryProcess = ExpiryProcess(lambda: play(process.stop), hours, log, SystemClock(), rounds)
    await process.run(chosen.metrics_host, chosen.metrics_port)


class ExpiryMetrics:
    """What the rounds of this process have done, for Prometheus to scrape; ``rounds`` is what they are of."""

    def __init__(self, rounds: Rounds) -> None:
        self.registry = CollectorRegistry()
        self._counters = {metric.name: self._counter(metric) for metric in EXPIRY_METRICS if metric.kind == "counter"}
        self._last = Gauge(
            EXPIRY_LAST_ROUND.name, EXPIRY_LAST_ROUND.help, EXPIRY_LAST_ROUND.labels, registry=self.registry
        ).labels(rounds)
        for what in ("run", "dead_letter", "artifact", "branch"):
            self._counters[EXPIRED.name].labels(what)
        self._counters[EXPIRY_LEFT.name].labels("round")

    def count(self, outcome: RoundOutcome, now: float) -> None:
        """A round came to its end; ``now`` in seconds since 1970."""
        for what, done in outcome.by_kind().items():
            left = sum(bool(each.code) for each in done)
            if len(done) > left:
                self._counters[EXPIRED.name].labels(what).inc(len(done) - left)
            if left:
                self._counters[EXPIRY_LEFT.name].labels(what).inc(left)
        if not outcome.left:
            self._last.set(now)

    def round_failed(self) -> None:
        self._counters[EXPIRY_LEFT.name].labels("round").inc()

    def exposition(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self.registry)


class ExpiryProcess:
    """Plays ``play`` every ``hours``; ``log`` is told what became of each round, ``rounds`` is what they are of."""

    def __init__(
        self,
        play: Callable[[], Awaitable[RoundOutcome]],
        hours: float,
        log: FilteringBoundLogger,
        clock: Clock,
        rounds: Rounds = "bus",
    ) -> None:
        self._play = play
        self._hours = hours
        self._log = log
        self._clock = clock
        self.metrics = ExpiryMetrics(rounds)
        self.stop = asyncio.Event()
        #: Of its HTTP face, once it serves.
        self.port = OFF
        self._missing = {"round": "none has come to its end yet"}

    async def run(self, host: str, port: int) -> None:
        """Until SIGTERM or SIGINT; a round that has begun comes to its end.

        Raises ConfigurationError where the first round cannot be played by what the process was given.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop.set)
        async with contextlib.AsyncExitStack() as stack:
            if port != OFF:
                server = HealthServer(self.pages(), host=host, port=port)
                await server.start()
                stack.push_async_callback(server.close)
                self.port = server.port
            self._log.info("expiry_started", metrics_port=self.port, hours=self._hours)
            first = True
            while not self.stop.is_set():
                pause = await self._round(first=first)
                first = False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self.stop.wait()

    async def _round(self, *, first: bool) -> float:
        """Play one; returns the seconds until the next."""
        seconds = self._hours * 3600
        try:
            outcome = await self._play()
        except GatewrightError as error:
            if first and isinstance(error, ConfigurationError):
                raise
            self.metrics.round_failed()
            self._missing = {"round": f"{error.reason}: {error.message}"}
            self._log.error("expiry_round_failed", code=error.reason, cause=error.message)
            return min(seconds, RETRY_SECONDS)
        self.metrics.count(outcome, self._clock.now().timestamp())
        self._missing = {"round": f"{outcome.left} items were left"} if outcome.left else {}
        went = {what: sum(not each.code for each in done) for what, done in outcome.by_kind().items()}
        self._log.info("expiry_round_done", left=outcome.left, **went)
        return min(seconds, RETRY_SECONDS) if outcome.left else seconds

    def pages(self) -> dict[str, Callable[[str], Page]]:
        """Path -> what it shows now."""
        return {
            "/healthz": lambda _accept: verdict_page({}),
            "/readyz": lambda _accept: verdict_page(self._missing),
            "/metrics": lambda _accept: Page(HTTPStatus.OK, self.metrics.exposition(), METRICS_TEXT),
        }
