"""``gc --ledger``, and the process that repeats rounds of retention (``--yes --every HOURS``).

A round of the ledger needs two identities, so a person or a separate process with both runs it. Only the gatekeeper writes the
ledger. Only the provisioner can delete from a stream that keeps its messages. No role has both identities.

With ``refs tidy --expired`` the process has the credential that deletes branches, and no identity of the bus. The process
accepts only requests for its metrics, runs no code of a repository, and has no task of a run. It reports a failed round and
retries it.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from structlog.typing import FilteringBoundLogger

from gatewright.app.cli import settings
from gatewright.app.cli.bundle_retention import make_collector
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.settings import AgentSettings
from gatewright.app.cli.user_git import user_checkout, user_name
from gatewright.app.retention.branch_expiry import BranchItem
from gatewright.app.retention.expiry_policy import load_expiry
from gatewright.app.retention.ledger_expiry import LedgerItem
from gatewright.app.retention.outcome import ItemOutcome
from gatewright.app.retention.plan import RetentionPolicy
from gatewright.app.retention.policy_round import PolicyRound, RoundOutcome
from gatewright.app.stack import state
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.clock import Clock, SystemClock, timestamp
from gatewright.errors import ConfigurationError, GatewrightError, MalformedError, UnavailableError
from gatewright.telemetry.health import METRICS_TEXT, OFF, HealthServer, Page, verdict_page
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metric_list import EXPIRED, EXPIRY_LAST_ROUND, EXPIRY_LEFT, EXPIRY_METRICS, Metric

T = TypeVar("T")
#: Seconds until a failed round is retried, unless the next one is due earlier.
RETRY_SECONDS = 600.0
#: Kind of rounds: data of the bus, or only branches.
Rounds = Literal["bus", "branches"]


async def expiry_round(
    store: str | None, keys: Sequence[Path], *, yes: bool, repositories: Sequence[Path] = ()
) -> RoundOutcome:
    """Plan a round, and with ``yes`` carry it out. Raises GatewrightError."""
    place, policy = find_place(), load_expiry(AgentSettings.load().policies).of_bus()
    evidence = make_collector(RetentionPolicy(), store or settings.load().bundle_store)
    held = keys or [bus_keys(place.home)]
    bus = await JetStreamBus.connect(_address(place, held, "gatekeeper"), name="expiry")
    try:
        provisioner = await Connection.open(_address(place, held, PROVISIONER), name="expiry")
        try:
            checkouts = tuple(user_checkout(each) for each in repositories)
            expiry = PolicyRound(bus, provisioner, evidence, policy, SystemClock(), user_name(), checkouts)
            return await expiry.play(yes=yes)
        finally:
            await provisioner.close()
    finally:
        await bus.close()


def _address(place: CommandContext, keys: Sequence[Path], identity: str) -> BusAddress:
    """Return the address of the bus that was named, or of the home folder's stack, for ``identity``."""
    files = [file for folder in keys for file in (seed_file(folder, identity), folder / f"{identity}.creds")]
    seed = next((file for file in files if file.is_file()), None)
    if seed is None:
        raise ConfigurationError(
            f"letting runs expire needs the identities gatekeeper and {PROVISIONER}: {files[0]} is not there; "
            "name their folder with --keys",
            code="identity_missing",
        )
    if place.bus is not None:
        return replace(place.bus, seed=seed)
    running = state.read(place.home)
    if running is None:
        raise UnavailableError("no system runs here, and no bus was named (GATEWRIGHT_NATS_URL)", code="no_stack")
    return replace(running.address(identity), seed=seed)


def round_lines(outcome: RoundOutcome, *, carried_out: bool) -> list[str]:
    """Format the plan, deletions first, and its totals."""
    lines = _run_lines(outcome.runs or (), outcome.expired_runs, carried_out=carried_out) if outcome.runs is not None else []
    if (letters := outcome.letters) is not None:
        went = sum(not each.code for each in outcome.expired_letters)
        words = f"{went} went" if carried_out else f"{len(letters.items)} would go"
        lines.append(f"dead letters: {words}, {letters.needed} stay for their runs, {letters.young} for their age")
        lines += _left_lines(outcome.expired_letters, lambda item: f"dead letter {item.sequence}")
    if (artifacts := outcome.artifacts) is not None:
        went = sum(not each.code for each in outcome.expired_artifacts)
        words = f"{went} went" if carried_out else f"{len(artifacts.items)} would go"
        lines.append(f"artifacts: {words}, {artifacts.needed} are referred to, {artifacts.young} are too young")
        lines += _left_lines(outcome.expired_artifacts, lambda item: f"artifact {item.name}")
    if outcome.branches is not None:
        lines += _branch_lines(outcome.branches, outcome.expired_branches, carried_out=carried_out)
    going = (outcome.letters.items if outcome.letters else ()), (outcome.artifacts.items if outcome.artifacts else ())
    if any(going) and not carried_out:
        lines.append("nothing has gone; do it with --yes")
    return lines


def _run_lines(plan: Sequence[LedgerItem], done: Sequence[ItemOutcome[LedgerItem]], *, carried_out: bool) -> list[str]:
    ranked = sorted(plan, key=lambda item: item.action == "keep")
    lines = [f"{item.action:<6} {item.run_id:<26} {item.entries:>5} entries  {item.why}" for item in ranked]
    going = [item for item in plan if item.action == "expire"]
    if not going:
        return [*lines, "no run expires"]
    if not carried_out:
        return [*lines, f"{len(going)} of {len(plan)} would expire; do it with --yes"]
    removed = sum(each.removed for each in done)
    lines.append(f"{sum(not each.code for each in done)} runs expired, {removed} entries went")
    return lines + _left_lines(done, lambda item: item.run_id)


def _branch_lines(plan: Sequence[BranchItem], done: Sequence[ItemOutcome[BranchItem]], *, carried_out: bool) -> list[str]:
    going = sum(item.action == "expire" for item in plan)
    went = sum(not each.code for each in done)
    words = f"{went} went" if carried_out else f"{going} would go"
    lines = [f"branches: {words}, {len(plan) - going} stay"]
    return lines + _left_lines(done, lambda item: f"gatewright/{item.branch.name}")


def _left_lines(done: Sequence[ItemOutcome[T]], name: Callable[[T], str]) -> list[str]:
    return [f"left {name(each.item)}: {each.code}: {each.message}" for each in done if each.code]


def result_document(outcome: RoundOutcome, *, carried_out: bool) -> dict[str, Any]:
    """Build the document of ``gc --ledger --json``."""
    document: dict[str, Any] = {
        "carried_out": carried_out,
        "items": [
            {"run_id": each.run_id, "action": each.action, "why": each.why, "entries": each.entries}
            for each in outcome.runs or ()
        ],
        "expired": [{"run_id": each.item.run_id, "removed": each.removed} for each in outcome.expired_runs if not each.code],
        "left": _left_entries(outcome.expired_runs, lambda item: {"run_id": item.run_id}),
    }
    if (artifacts := outcome.artifacts) is not None:
        document["artifacts"] = {
            "items": [{"sha256": item.name, "stored_at": timestamp(item.use.at)} for item in artifacts.items],
            "needed": artifacts.needed,
            "young": artifacts.young,
            "expired": [each.item.name for each in outcome.expired_artifacts if not each.code],
            "left": _left_entries(outcome.expired_artifacts, lambda item: {"sha256": item.name}),
        }
    if (letters := outcome.letters) is not None:
        document["dead_letters"] = {
            "items": [item.sequence for item in letters.items],
            "needed": letters.needed,
            "young": letters.young,
            "expired": [each.item.sequence for each in outcome.expired_letters if not each.code],
            "left": _left_entries(outcome.expired_letters, lambda item: {"sequence": item.sequence}),
        }
    if (branches := outcome.branches) is not None:
        document["branches"] = {
            "items": [{"run_id": b.branch.name, "commit": b.branch.commit, "action": b.action, "why": b.why} for b in branches],
            "expired": [each.item.branch.name for each in outcome.expired_branches if not each.code],
            "left": _left_entries(outcome.expired_branches, lambda item: {"run_id": item.branch.name}),
        }
    return document


def _left_entries(done: Sequence[ItemOutcome[T]], name: Callable[[T], dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items that could not be deleted, each by its name, with the reason."""
    return [{**name(each.item), "code": each.code, "message": each.message} for each in done if each.code]


def refuse_without_yes(*, yes: bool) -> None:
    """Raise MalformedError without ``yes``: repeated rounds would only print plans."""
    if not yes:
        raise MalformedError("--every carries out the plan: it needs --yes", code="invalid_input")


async def play_rounds(play: Callable[[asyncio.Event], Awaitable[RoundOutcome]], hours: float, rounds: Rounds) -> None:
    """Run rounds until the process is stopped. ``play`` receives the stop event.

    Raises:
        ConfigurationError: the first round cannot run with the given identities or settings.
    """
    chosen = settings.load()
    log = make_logger().bind(role="expiry")
    process: ExpiryProcess = ExpiryProcess(lambda: play(process.stop), hours, log, SystemClock(), rounds)
    await process.run(chosen.metrics_host, chosen.metrics_port)


class ExpiryMetrics:
    """Metrics of the rounds of this process, for Prometheus. ``rounds``: their kind."""

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
        """Count a finished round. ``now``: seconds since 1970."""
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
    """Runs ``play`` every ``hours``. ``log`` receives the outcome of each round. ``rounds``: their kind."""

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
        #: Address of its HTTP endpoint, once it serves.
        self.port = OFF
        self._missing = {"round": "none has ended yet"}

    async def run(self, host: str, port: int) -> None:
        """Run until SIGTERM or SIGINT. A round that has begun is finished first.

        Raises:
            ConfigurationError: the first round cannot run with the given identities or settings.
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
        """Run one round; return the seconds until the next."""
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
        """Return the pages by path."""
        return {
            "/healthz": lambda _accept: verdict_page({}),
            "/readyz": lambda _accept: verdict_page(self._missing),
            "/metrics": lambda _accept: Page(HTTPStatus.OK, self.metrics.exposition(), METRICS_TEXT),
        }
