"""``forge``: shows runs on GitHub, GitLab, Gitea or Forgejo, and has change requests judged."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    import socket

    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cli.settings import ForgeSettings
    from gatewright.app.forge.inward import Ordered, Skipped
    from gatewright.app.forge.keeper import ForgeKeeper, JudgeRequests, ReadRun, RoundReport
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.app.forge.port import Forge
    from gatewright.app.forge.receiver import Hook
    from gatewright.client.client import Client
    from gatewright.contracts import RunRequest
    from gatewright.contracts.forge_policy import ForgeEntry
    from gatewright.contracts.vocabulary import Artifact
    from gatewright.run.history import FollowedRun
    from gatewright.telemetry.logs import Logger

_CALL_WORDS: Final = {
    "OpenRequest": "opened the request",
    "WriteComment": "wrote the comment",
    "SetCheck": "set the check",
    "MergeRequest": "merged the request",
    "CloseRequest": "closed the request",
}
#: The publisher whose runs judge change requests.
FORGE_PUBLISHER = "forge"


def register(app: typer.Typer) -> None:
    app.command()(forge)


@reported
def forge(
    *,
    once: Annotated[bool, typer.Option("--once", help="Compare everything once, and exit")] = False,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Address to receive webhooks on")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="Expect a proxy that ends TLS")] = False,
    publisher_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed of a publisher on an external bus, to order runs")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Show runs on GitHub, GitLab, Gitea or Forgejo, as forges.json defines.

    Opens pull requests, sets checks on exact commits, and keeps one comment per run. It cannot push, and it decides
    nothing.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.settings import ForgeSettings
    from gatewright.app.forge.policy import load_forges
    from gatewright.app.http_access import check_address, listening_socket, read_address

    if json_output and not once:
        raise MalformedError("--json goes with --once", code="invalid_input")
    chosen = ForgeSettings.load()
    entries = load_forges(chosen.policies)
    place = find_place()
    work = ForgeWork(place, entries, chosen, publisher_seed)
    if not once:
        with contextlib.ExitStack() as stack:
            listening = None
            if http is not None:
                host, port = read_address(http)
                check_address(host, behind_proxy=behind_proxy)
                listening = stack.enter_context(listening_socket(host, port))
            asyncio.run(_keep_entries(work, listening))
        return
    reports = asyncio.run(_compare_once(work))
    if json_output:
        emit({"forges": [{"name": name, **_report_document(report)} for name, report in reports.items()]})
    else:
        for name, report in reports.items():
            for line in _report_lines(report):
                write_line(printable(f"{name}: {line}"))
    raise typer.Exit(Exit.FAILED if any(report.faults for report in reports.values()) else Exit.GOOD)


@dataclass(frozen=True, slots=True)
class ForgeWork:
    """What the process works on, and with. ``seed``: that of the publisher, on a bus that was named."""

    place: CommandContext
    entries: tuple[ForgeEntry, ...]
    chosen: ForgeSettings
    seed: Path | None

    @property
    def publisher(self) -> str:
        """Return the publisher that orders runs: that of the seed, or ``forge``.

        Raises ConfigurationError (``identity_invalid``): the seed's identity is not a publisher.
        """
        from gatewright.bus.identities import is_publisher, load, publisher_of

        if self.seed is None:
            return FORGE_PUBLISHER
        identity = load(self.seed).identity
        if not is_publisher(identity):
            words = f"{self.seed} is the seed of {identity}: runs are ordered by a publisher"
            raise ConfigurationError(words, code="identity_invalid")
        return publisher_of(identity) or FORGE_PUBLISHER

    def judge(self, entry: ForgeEntry, forge: Forge, keeper: ForgeKeeper) -> JudgeRequests | None:
        """Return what judges the requests of others; None if the policy has them not judged.

        Raises ConfigurationError (``identity_invalid``): a bus was named, and no publisher's seed.
        """
        if entry.judge is None:
            return None
        from gatewright.app.cli import settings
        from gatewright.app.cli.hosts.access import HostAccess
        from gatewright.app.forge.inward import Inward
        from gatewright.git.access.credentials import RepositoryAccess
        from gatewright.git.mirror import Mirrors

        place = self.place
        if place.bus is not None:
            if self.seed is None:
                words = f"entry {entry.name} has requests judged: give a publisher's seed (--publisher-seed FILE)"
                raise ConfigurationError(words, code="identity_invalid")
            place = replace(place, bus=replace(place.bus, seed=self.seed))
        access = HostAccess(place, publisher=self.publisher, requested_by="forge")
        # With the access of a role that reads: this process never pushes.
        folder, reading = place.home / "forge" / "mirrors", RepositoryAccess.load(self.chosen.policies, "pm")
        mirrors = Mirrors(folder, access=reading, most=settings.load().mirror_bytes)
        orders = PublisherOrders(access.client)
        return Inward(entry, entry.judge, forge, mirrors, orders, lambda: keeper.judged, self.publisher)


@dataclass(frozen=True, slots=True)
class PublisherOrders:
    """Orders runs on a connection for each call, so that a restarted system is found again."""

    connect: Callable[[], AbstractAsyncContextManager[Client]]

    async def attach(self, name: str, data: bytes) -> Artifact:
        """Store ``data`` as an artifact of an order. Raises as the client does."""
        async with self.connect() as client:
            return await client.attach(name, data)

    async def submit_request(self, request: RunRequest) -> str:
        """Submit an order; return its run id. Raises as the client does."""
        async with self.connect() as client:
            return await client.submit_request(request)


async def _keep_entries(work: ForgeWork, listening: socket.socket | None) -> None:
    """Show and judge until the process is stopped. ``listening``: where webhooks come in, if anywhere."""
    from gatewright.app.cli import settings
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.feed.link import LedgerLink
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.app.forge.process import ForgeProcess
    from gatewright.app.forge.receiver import Receiver, serve_webhooks
    from gatewright.telemetry.logs import make_logger

    connect = ledger_readers(work.place)
    async with connect():
        pass  # report immediately what cannot be reached
    log = make_logger().bind(role="forge")
    link = LedgerLink(connect, lambda words: log.warning("ledger_away", cause=words))
    metrics = ForgeMetrics(entry.name for entry in work.entries)

    async def read_run(run_id: str) -> FollowedRun | None:
        return await _read_run(link.client, run_id)

    async with _keepers(work, read_run, metrics, log) as kept:
        receive = None
        if listening is not None:
            hooks = {name: hook for name, (_, hook) in kept.items() if hook is not None}
            receive = partial(serve_webhooks, Receiver(hooks, time.monotonic), listening)
        process = ForgeProcess([keeper for keeper, _ in kept.values()], link, metrics, log, receive)
        common = settings.load()
        await process.run(common.metrics_host, common.metrics_port)


async def _compare_once(work: ForgeWork) -> dict[str, RoundReport]:
    """Compare every entry once. Raises UnavailableError of the first forge that is away, after the others."""
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.feed.link import read_once
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.errors import UnavailableError
    from gatewright.telemetry.logs import make_logger

    log = make_logger(level="error").bind(role="forge")
    metrics = ForgeMetrics(entry.name for entry in work.entries)
    reports: dict[str, RoundReport] = {}
    away: UnavailableError | None = None
    async with ledger_readers(work.place)() as client:
        follower = await read_once(client)

        async def read_run(run_id: str) -> FollowedRun | None:
            return await _read_run(client, run_id)

        async with _keepers(work, read_run, metrics, log) as kept:
            for name, (keeper, _) in kept.items():
                try:
                    reports[name] = await keeper.round(follower.board)
                except UnavailableError as error:
                    if away is None:
                        away = UnavailableError(f"{name}: {error.message}", code=error.reason)
                    else:
                        note(f"{name}: {error.message} [{error.reason}]")
    if away is not None:
        raise away
    return reports


@contextlib.asynccontextmanager
async def _keepers(
    work: ForgeWork, read_run: ReadRun, metrics: ForgeMetrics, log: Logger
) -> AsyncIterator[dict[str, tuple[ForgeKeeper, Hook | None]]]:
    """Yield keeper and webhook of each entry, by name. Raises ConfigurationError: a token or seed is missing."""
    from gatewright.app.forge.adapters import connect_forge
    from gatewright.app.forge.keeper import ForgeKeeper, KeeperSettings
    from gatewright.app.forge.policy import read_secret
    from gatewright.app.forge.receiver import Hook
    from gatewright.clock import SystemClock

    def hook_of(entry: ForgeEntry, forge: Forge, keeper: ForgeKeeper) -> Hook | None:
        secret = entry.webhook_secret
        return Hook(forge, lambda: read_secret(secret).encode(), keeper.hint) if secret is not None else None

    settings = KeeperSettings(
        poll=work.chosen.forge_poll_seconds,
        recheck=work.chosen.forge_recheck_seconds,
        look_back=timedelta(days=work.chosen.forge_look_back_days),
        publisher=work.publisher,
        console=work.chosen.forge_console,
    )
    async with contextlib.AsyncExitStack() as stack:
        kept: dict[str, tuple[ForgeKeeper, Hook | None]] = {}
        for entry in work.entries:
            connection = connect_forge(entry.kind, entry.api, entry.project, partial(read_secret, entry.token))
            forge = await stack.enter_async_context(connection)
            keeper = ForgeKeeper(entry, forge, read_run, metrics.of(entry.name), settings, SystemClock(), log)
            keeper.judge = work.judge(entry, forge, keeper)
            kept[entry.name] = keeper, hook_of(entry, forge, keeper)
        yield kept


async def _read_run(client: Client, run_id: str) -> FollowedRun | None:
    from gatewright.run.history import follow_all

    return follow_all(await client.events(run_id))


def _report_document(report: RoundReport) -> dict[str, Any]:
    """Build what one round did, for programs."""
    import msgspec

    runs = [
        {
            "run_id": done.run_id,
            "number": done.number,
            "calls": [{"call": type(call).__name__, **msgspec.to_builtins(call)} for call in done.calls],
            "alarm": done.alarm,
        }
        for done in report.runs
    ]
    requests = [{"outcome": type(each).__name__, **msgspec.to_builtins(each)} for each in report.requests]
    return {"runs": runs, "requests": requests, "faults": report.faults}


def _report_lines(report: RoundReport) -> list[str]:
    """Format what one round did."""
    lines = []
    for done in report.runs:
        made = ", ".join(_CALL_WORDS[type(call).__name__] for call in done.calls) or "nothing to do"
        where = f" (request {done.number})" if done.number is not None else ""
        lines.append(f"{done.run_id}{where}: {made}")
        lines += [f"alarm: {done.alarm}"] if done.alarm else []
    lines += [_judged_line(each) for each in report.requests]
    lines += report.faults
    return lines or ["nothing to do"]


def _judged_line(outcome: Ordered | Skipped) -> str:
    from gatewright.app.forge.inward import Ordered

    if isinstance(outcome, Ordered):
        verb = "judges" if outcome.repeated else "now judges"
        return f"request {outcome.number}: {outcome.run_id} {verb} {outcome.head[:12]}"
    return f"request {outcome.number}: {outcome.message}"
