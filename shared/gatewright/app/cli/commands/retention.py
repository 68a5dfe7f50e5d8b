"""``gc`` and ``hold``: which bundles go, and which must stay."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gatewright.app.cli.option_groups import grouped
from gatewright.app.cli.options import JsonOutput, known_runs
from gatewright.app.cli.output import emit, reported, say
from gatewright.errors import MalformedError
from gatewright.view.safe_text import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """How long what may go stays."""

    keep_last: Annotated[int, typer.Option(min=0, metavar="N", help="Bundles that stay whatever their age.")] = 20
    keep_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="How long bundles of good runs stay.")] = 30
    keep_failed_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="How long bundles of failed and aborted runs stay.")
    ] = 90
    keep_cache_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="How long unused environments and mirrors stay.")
    ] = 30


def register(app: typer.Typer) -> None:
    app.command()(gc)
    app.command()(hold)


@grouped
@reported
def gc(
    store: Annotated[
        str | None,
        typer.Argument(metavar="[STORE]", help="The address of a store (s3://...); the home folder if left out."),
    ] = None,
    *,
    keep: KeepOptions,
    ledger: Annotated[
        bool,
        typer.Option(
            "--ledger",
            help="Let what the bus keeps expire, after the days of retention.json: sealed runs, the artifacts that nothing "
            "refers to any more, dead letters. Bundles stay as they are.",
        ),
    ] = False,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="With --ledger: where gatekeeper.nk and provisioner.nk lie (or .creds); may be given twice.",
            show_default="of the home folder",
        ),
    ] = None,
    repo: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="With --ledger: a repository here whose branches of runs expire too."),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(min=0.01, metavar="HOURS", help="With --ledger and --yes: stay, and play a round every so many hours."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do what the plan says; without it the plan is only printed.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Remove old bundles, unused environments and mirrors: prints the plan first, removes nothing without --yes.

    Each bundle leaves a signed tombstone. Bundles on hold, of open runs, and such as do not verify always stay.
    Environments and mirrors are made again when they are wanted; while a stack runs, all of them stay.
    """
    if ledger:
        _gc_ledger(store, keys or [], repo or [], every, yes=yes, json_output=json_output)
    if repo or every is not None:
        raise MalformedError("--repo and --every go with --ledger", code="invalid_input")
    from gatewright.app.cli.bundles.caches import CacheRound
    from gatewright.app.cli.bundles.retention import carry_out, closing_lines, make_collector, plan_lines, result_document
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.retention.plan import RetentionPolicy

    policy = RetentionPolicy(keep_last=keep.keep_last, keep_days=keep.keep_days, keep_failed_days=keep.keep_failed_days)
    collector = make_collector(policy, store)
    plan = collector.plan()
    caches = CacheRound.of(store, keep.keep_cache_days)
    if not json_output:
        for line in (*plan_lines(plan), *caches.plan_lines()):
            say(printable(line))
    done = carry_out(collector, plan) if yes else ()
    if yes:
        caches.carry_out()
    if json_output:
        emit({**result_document(plan, done, carried_out=yes), **caches.document()})
    else:
        for line in (*closing_lines(plan, done, carried_out=yes), *caches.closing_lines(carried_out=yes)):
            say(printable(line))
    raise typer.Exit(Exit.INFRASTRUCTURE if any(each.code for each in done) else Exit.GOOD)


def _gc_ledger(
    store: str | None, keys: list[Path], repositories: list[str], every: float | None, *, yes: bool, json_output: bool
) -> NoReturn:
    import asyncio
    from functools import partial

    from gatewright.app.cli.operations.branch_expiry import refuse_remote
    from gatewright.app.cli.operations.expiry_process import play_rounds, refuse_without_yes
    from gatewright.app.cli.operations.ledger_expiry import expiry_round, result_document, round_lines
    from gatewright.app.cli.outcome import Exit

    refuse_remote(repositories)
    play = partial(expiry_round, store, keys, yes=yes, repositories=[Path(each).absolute() for each in repositories])
    if every is not None:
        refuse_without_yes(yes=yes)
        asyncio.run(play_rounds(lambda _stop: play(), every, "bus"))
        raise typer.Exit(Exit.GOOD)
    outcome = asyncio.run(play())
    if json_output:
        emit(result_document(outcome, carried_out=yes))
    else:
        for line in round_lines(outcome, carried_out=yes):
            say(printable(line))
    raise typer.Exit(Exit.INFRASTRUCTURE if outcome.left else Exit.GOOD)


@reported
def hold(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]",
            help="A run id or its beginning; STORE/RUN in a store, STORE lists its holds.",
            autocompletion=known_runs,
        ),
    ] = None,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; it is written down.")] = None,
    release: Annotated[bool, typer.Option("--release", help="Take the hold off again.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Keep the bundle of a run whatever its age, until the hold is released. Without a run: list the holds."""
    from gatewright.app.cli.bundles.retention import act_on, hold_lines, standing_holds
    from gatewright.evidence.store.address import is_address, is_run

    if run is None or (is_address(run) and reason is None and not release and not is_run(run.rpartition("/")[2])):
        holds = standing_holds(run)
        if json_output:
            emit({"holds": holds})
            return
        for line in hold_lines(holds):
            say(printable(line))
        return
    if not (reason or "").strip():
        raise MalformedError("say why: --reason TEXT", code="invalid_input")
    act = act_on(run, "release" if release else "place", reason or "")
    if json_output:
        emit(act)
    else:
        say(printable(f"{act.run_id} is {'not ' if release else ''}on hold: {act.reason}"))
