"""``forge``: shows runs on GitHub, GitLab, Gitea or Forgejo, and has change requests judged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, note, reported, say
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cli.settings import ForgeSettings
    from gatewright.app.forge.keeper import ForgeKeeper, ReadRun, RoundReport
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.client.client import Client
    from gatewright.contracts.forge_policy import ForgeEntry
    from gatewright.run.history import FollowedRun
    from gatewright.telemetry.logs import Logger

#: The publisher whose runs judge change requests.
FORGE_PUBLISHER = "forge"


def register(app: typer.Typer) -> None:
    app.command()(forge)


@reported
def forge(
    *,
    once: Annotated[bool, typer.Option("--once", help="Compare everything once, and exit")] = False,
    publisher_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed of a publisher on an external bus, to order runs")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Show runs on GitHub, GitLab, Gitea or Forgejo, as forges.json defines.

    Opens change requests, sets checks on exact commits, and keeps one comment per run. It cannot push, and it decides
    nothing.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.settings import ForgeSettings
    from gatewright.app.forge.policy import load_forges

    if json_output and not once:
        raise MalformedError("--json goes with --once", code="invalid_input")
    chosen = ForgeSettings.load()
    entries = load_forges(chosen.policies)
    place = find_place()
    if not once:
        asyncio.run(_keep_entries(place, entries, chosen, publisher_seed))
        return
    reports = asyncio.run(_compare_once(place, entries, chosen, publisher_seed))
    if json_output:
        emit({"forges": [{"name": name, **_report_document(report)} for name, report in reports.items()]})
    else:
        for name, report in reports.items():
            for line in _report_lines(report):
                say(printable(f"{name}: {line}"))
    raise typer.Exit(Exit.FAILED if any(report.faults for report in reports.values()) else Exit.GOOD)


async def _keep_entries(
    place: CommandContext, entries: tuple[ForgeEntry, ...], chosen: ForgeSettings, publisher_seed: Path | None
) -> None:
    """Show and judge until the process is stopped."""
    from gatewright.app.cli import settings
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.feed.link import LedgerLink
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.app.forge.process import ForgeProcess
    from gatewright.telemetry.logs import make_logger

    connect = ledger_readers(place)
    async with connect():
        pass  # report immediately what cannot be reached
    log = make_logger().bind(role="forge")
    link = LedgerLink(connect, lambda words: log.warning("ledger_away", cause=words))
    metrics = ForgeMetrics(entry.name for entry in entries)

    async def read_run(run_id: str) -> FollowedRun | None:
        return await _read_run(link.client, run_id)

    async with _keepers(entries, chosen, _publisher(publisher_seed), read_run, metrics, log) as keepers:
        process = ForgeProcess(keepers, link, metrics, log)
        common = settings.load()
        await process.run(common.metrics_host, common.metrics_port)


async def _compare_once(
    place: CommandContext, entries: tuple[ForgeEntry, ...], chosen: ForgeSettings, publisher_seed: Path | None
) -> dict[str, RoundReport]:
    """Compare every entry once. Raises UnavailableError of the first forge that is away, after the others."""
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.feed.link import read_once
    from gatewright.app.forge.metrics import ForgeMetrics
    from gatewright.errors import UnavailableError
    from gatewright.telemetry.logs import make_logger

    log = make_logger(level="error").bind(role="forge")
    metrics = ForgeMetrics(entry.name for entry in entries)
    reports: dict[str, RoundReport] = {}
    away: UnavailableError | None = None
    async with ledger_readers(place)() as client:
        follower = await read_once(client)

        async def read_run(run_id: str) -> FollowedRun | None:
            return await _read_run(client, run_id)

        async with _keepers(entries, chosen, _publisher(publisher_seed), read_run, metrics, log) as keepers:
            for keeper in keepers:
                try:
                    reports[keeper.entry.name] = await keeper.round(follower.board)
                except UnavailableError as error:
                    away = away or error
                    note(f"{keeper.entry.name}: {error.message} [{error.reason}]")
    if away is not None:
        raise away
    return reports


@contextlib.asynccontextmanager
async def _keepers(
    entries: tuple[ForgeEntry, ...],
    chosen: ForgeSettings,
    publisher: str,
    read_run: ReadRun,
    metrics: ForgeMetrics,
    log: Logger,
) -> AsyncIterator[list[ForgeKeeper]]:
    """Yield a keeper for each entry. Raises ConfigurationError: a token is missing."""
    from gatewright.app.forge.adapters import connect_forge
    from gatewright.app.forge.keeper import ForgeKeeper, KeeperSettings
    from gatewright.app.forge.policy import read_secret
    from gatewright.clock import SystemClock

    settings = KeeperSettings(
        poll=chosen.forge_poll_seconds,
        recheck=chosen.forge_recheck_seconds,
        look_back=timedelta(days=chosen.forge_look_back_days),
        publisher=publisher,
        console=chosen.forge_console,
    )
    async with contextlib.AsyncExitStack() as stack:
        keepers = []
        for entry in entries:
            connection = connect_forge(entry.kind, entry.api, entry.project, read_secret(entry.token))
            forge = await stack.enter_async_context(connection)
            keepers.append(ForgeKeeper(entry, forge, read_run, metrics.of(entry.name), settings, SystemClock(), log))
        yield keepers


def _publisher(seed: Path | None) -> str:
    """Return the publisher that orders runs: that of the seed, or ``forge``.

    Raises ConfigurationError (``identity_invalid``): the seed's identity is not a publisher.
    """
    from gatewright.bus.identities import is_publisher, load, publisher_of

    if seed is None:
        return FORGE_PUBLISHER
    identity = load(seed).identity
    if not is_publisher(identity):
        words = f"{seed} is the seed of {identity}: runs are ordered by a publisher"
        raise ConfigurationError(words, code="identity_invalid")
    return publisher_of(identity) or FORGE_PUBLISHER


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
    requests = [{"number": each.number, "outcome": type(each).__name__} for each in report.requests]
    return {"runs": runs, "requests": requests, "faults": report.faults}


def _report_lines(report: RoundReport) -> list[str]:
    """Format what one round did."""
    lines = []
    for done in report.runs:
        made = ", ".join(type(call).__name__ for call in done.calls) or "nothing to do"
        where = f" (request {done.number})" if done.number is not None else ""
        lines.append(f"{done.run_id}{where}: {made}")
        lines += [f"alarm: {done.alarm}"] if done.alarm else []
    lines += [f"request {each.number}: {type(each).__name__}" for each in report.requests]
    lines += report.faults
    return lines or ["nothing to do"]
