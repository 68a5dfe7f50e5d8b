"""The life cycle of a service process: settings, logs, bus, topology, health, signals, exit code.

``run_process`` is for a service with its own loop (the gatekeeper); ``service/tasks.py`` builds on it for roles that take
tasks. The exit code is 0 after a signal to stop, 1 for an internal error, 2 for invalid settings, 3 for a bus failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Literal, TypeVar

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.processes import DEAD_LETTERS
from gatewright.bus.jetstream.setup import await_queues, ensure_topology
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.port import Bus, Handler
from gatewright.bus.topology import Role, consumers
from gatewright.clock import Clock, SteadyClock, SystemClock, timestamp
from gatewright.errors import BusError, ConfigurationError, GatewrightError, UnavailableError
from gatewright.host_errors import check_room, host_error
from gatewright.service.settings import ServiceSettings
from gatewright.telemetry.health import (
    METRICS_TEXT,
    OFF,
    OPEN_METRICS_TEXT,
    HealthServer,
    Page,
    Pages,
    takes_open_metrics,
    verdict_page,
)
from gatewright.telemetry.logs import Logger, make_logger, route_foreign_output
from gatewright.telemetry.metrics import Metrics
from gatewright.telemetry.traces import open_sink
from gatewright.tracing.spans import NoSpans, SpanSink
from gatewright.version import __version__

#: Maximum characters of a missing prerequisite in the report to operators.
_MOST_WORDS = 500

EXIT_CLEAN = 0
EXIT_FAILED = 1
EXIT_CONFIGURATION = 2
EXIT_INFRASTRUCTURE = 3

S = TypeVar("S", bound=ServiceSettings)
#: A role, or a process that serves requests only.
ProcessName = Role | Literal["puller"]


@dataclass(slots=True)
class Readiness:
    """The missing prerequisites of the process: name -> cause. Empty: ready."""

    missing: dict[str, str] = field(default_factory=dict)

    def lacks(self, name: str, cause: str) -> None:
        self.missing[name] = cause

    def has(self, name: str) -> None:
        self.missing.pop(name, None)


@dataclass(frozen=True, slots=True)
class Service:
    """A process that is connected. ``stop`` is set by SIGTERM, SIGINT or the loss of the bus; leave soon after."""

    role: ProcessName
    bus: Bus
    clock: Clock
    log: Logger
    metrics: Metrics
    readiness: Readiness
    stop: asyncio.Event
    spans: SpanSink = field(default_factory=NoSpans)

    async def register(
        self,
        endpoints: Mapping[str, Handler] | None = None,
        *,
        waiting: Collection[str] = (),
        apart: Collection[Collection[str]] = (),
    ) -> None:
        """Show up as the NATS micro service ``gw-<role>``, with these endpoints; from then on the process is ready."""
        await self.bus.serve(f"gw-{self.role}", endpoints or {}, waiting=waiting, apart=apart)
        self.readiness.has("registration")


@contextlib.asynccontextmanager
async def service(
    role: ProcessName, settings: ServiceSettings, log: Logger, *, clock: Clock | None = None
) -> AsyncIterator[Service]:
    """A connected process with its HTTP face and signal handlers; ``register`` must be called to make it ready.

    Raises BusError when the server cannot be had, or was lost for good while the body ran, ConfigurationError when the address
    for metrics or the topology cannot be had.
    """
    readiness = Readiness({"bus": "not connected yet", "registration": "not registered yet"})
    metrics, stop = Metrics(role), asyncio.Event()
    lost: list[BusError] = []

    def on_lost(cause: BusError) -> None:
        lost.append(cause)
        stop.set()

    async with contextlib.AsyncExitStack() as stack:
        reached: list[Connection] = []
        _stop_on_signals(stop, log, reached)
        spans = open_sink(settings.traces, role)
        stack.push_async_callback(asyncio.to_thread, spans.close)
        bus = await repeat_until_answered(
            lambda: JetStreamBus.connect(settings.bus_address, name=role, on_lost=on_lost), useless=stop.is_set
        )
        stack.push_async_callback(bus.close)
        reached.append(bus.connection)
        bus.connection.watch(lambda: metrics.bus_reconnected() if bus.connected else None)
        readiness.has("bus")
        port = await _serve_health(stack, settings, bus, readiness, metrics)
        if role == "gatekeeper":
            queues, replicas, applied = consumers(settings.pools), settings.stream_replicas, settings.stream_settings
            small = await repeat_until_answered(
                lambda: ensure_topology(bus, queues=queues, replicas=replicas, settings=applied), useless=stop.is_set
            )
            if small:
                log.warning("bus_storage_small", **{name: f"{size >> 20} MiB" for name, size in small.items()})
        else:
            own = [queue for queue in consumers((settings.pool,)) if queue.owner == role]

            def missing(name: str) -> None:
                readiness.lacks("queue", f"{name} does not exist yet")

            await repeat_until_answered(lambda: await_queues(bus, own, stop, missing), useless=stop.is_set)
            readiness.has("queue")
        log.info("service_started", version=__version__, metrics_port=port, pool=settings.pool)
        yield Service(role, bus, clock or SteadyClock(), log, metrics, readiness, stop, spans)
    if lost:
        raise lost[0]


def run_process(
    role: ProcessName,
    body: Callable[[Service, S], Awaitable[None]],
    settings_type: type[S],
    *,
    before: Callable[[S], object] | None = None,
) -> int:
    """Run ``body`` as the process of ``role`` until it returns or raises; the result is the exit code.

    ``before`` is called with the settings while there is one thread only.
    """
    log = make_logger().bind(role=role)
    try:
        settings = settings_type.load()
        if before is not None:
            before(settings)
        log = make_logger(level=settings.log_level, style=settings.log_style).bind(role=role)
        route_foreign_output(log)
        asyncio.run(_live(role, body, settings, log))
    except GatewrightError as error:
        return _report_failure(error, log)
    except BaseExceptionGroup as failures:
        # From concurrent tasks: an unexpected failure takes precedence.
        if failures.split(_is_expected)[1] is not None:
            raise
        first = _first_failure(failures)
        return _report_failure(host_error(first) or first, log)
    except KeyboardInterrupt:
        return EXIT_CLEAN
    except (OSError, MemoryError) as error:
        found = host_error(error)
        if found is None:
            raise
        return _report_failure(found, log)
    log.info("service_stopped")
    return EXIT_CLEAN


async def _live(role: ProcessName, body: Callable[[Service, S], Awaitable[None]], settings: S, log: Logger) -> None:
    async with service(role, settings, log) as connected:
        await body(connected, settings)


def _report_failure(error: BaseException, log: Logger) -> int:
    """Log the ``error`` that ended the process in one line, and return its exit code."""
    code = error.reason if isinstance(error, GatewrightError) else GatewrightError.code
    log.error("service_failed", code=code, cause=str(error))
    if isinstance(error, ConfigurationError):
        return EXIT_CONFIGURATION
    return EXIT_INFRASTRUCTURE if isinstance(error, UnavailableError) else EXIT_FAILED


def _is_expected(failure: BaseException) -> bool:
    """Return whether the error is about the environment; any other one is a defect."""
    return isinstance(failure, GatewrightError) or host_error(failure) is not None


def _first_failure(failure: BaseException) -> BaseException:
    return _first_failure(failure.exceptions[0]) if isinstance(failure, BaseExceptionGroup) else failure


def _stop_on_signals(stop: asyncio.Event, log: Logger, connections: Sequence[Connection]) -> None:
    """Handle SIGTERM: stop and accept nothing more. SIGINT: stop immediately, without waiting for pulls, as the server may go
    too."""

    def leave(number: signal.Signals) -> None:
        log.info("signal_received", signal=number.name)
        for connection in connections:
            connection.hurried |= number is signal.SIGINT
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave, number)


def _free(home: Path) -> int:
    """Bytes that are free where this process works."""
    place = next(folder for folder in (home, *home.parents) if folder.is_dir())
    return shutil.disk_usage(place).free


def _room(home: Path) -> dict[str, str]:
    """Return why the state of this host cannot be written."""
    try:
        check_room(home)
    except UnavailableError as error:
        return {"disk": error.message}
    return {}


def _render_metrics(metrics: Metrics, accept: str) -> Page:
    """The metrics in the richest form that is taken."""
    if takes_open_metrics(accept):
        return Page(HTTPStatus.OK, metrics.open_exposition(), OPEN_METRICS_TEXT)
    return Page(HTTPStatus.OK, metrics.exposition(), METRICS_TEXT)


async def _serve_health(
    stack: contextlib.AsyncExitStack, settings: ServiceSettings, bus: JetStreamBus, readiness: Readiness, metrics: Metrics
) -> int:
    """Start the HTTP face unless it is off; returns its port."""

    def stored() -> Mapping[str, str]:
        return {**bus.streams.failing(), **_room(settings.home)}

    def alive() -> Mapping[str, str]:
        return {**({} if bus.connected else {"bus": "not connected"}), **stored()}

    def facts() -> Mapping[str, str]:
        lacking = {**readiness.missing, **alive()}
        words = "; ".join(f"{name}: {cause}" for name, cause in lacking.items())
        letters = {} if metrics.open_dead_letters is None else {DEAD_LETTERS: str(metrics.open_dead_letters)}
        own = {"clock": timestamp(SystemClock().now()), "lacks": words[:_MOST_WORDS], "disk_free": str(_free(settings.home))}
        return own | letters

    bus.report_facts(facts)
    metrics.show_storage(lambda: bool(stored()))
    metrics.show_readiness(lambda: not (readiness.missing or alive()))
    pages: Pages = {
        "/healthz": lambda _accept: verdict_page(alive()),
        "/readyz": lambda _accept: verdict_page({**readiness.missing, **alive()}),
        "/metrics": lambda accept: _render_metrics(metrics, accept),
    }
    if settings.metrics_port == OFF:
        return OFF
    server = HealthServer(pages, host=settings.metrics_host, port=settings.metrics_port)
    await server.start()
    stack.push_async_callback(server.close)
    return server.port
