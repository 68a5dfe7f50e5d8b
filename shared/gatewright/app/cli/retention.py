"""``gc`` and ``hold``: delete old bundles, and protect bundles from deletion; ``refs``: branches that runs created."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from gatewright.app.cli.options import JsonOutput, grouped, known_runs
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, note, reported, terminal_width, write_line
from gatewright.errors import MalformedError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.retention.branch_expiry import BranchItem
    from gatewright.app.retention.outcome import ItemOutcome
    from gatewright.app.retention.policy_round import RoundOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """Retention periods of items that may be deleted."""

    keep_last: Annotated[int, typer.Option(min=0, metavar="N", help="Number of newest bundles to keep")] = 20
    keep_days: Annotated[float, typer.Option(min=0, metavar="DAYS", help="Age limit of bundles of successful runs")] = 30
    keep_failed_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="Age limit of bundles of failed and aborted runs")
    ] = 90
    keep_cache_days: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="Age limit of unused environments and mirrors")
    ] = 30


@grouped
@reported
def gc(
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Address of a store (default: home folder)")] = None,
    *,
    keep: KeepOptions,
    ledger: Annotated[bool, typer.Option("--ledger", help="Expire data on the bus instead of bundles")] = False,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="With --ledger: directory with gatekeeper.nk and provisioner.nk (or .creds)",
            show_default="home folder",
        ),
    ] = None,
    repo: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="With --ledger: local repository whose run branches expire too")
    ] = None,
    every: Annotated[
        float | None, typer.Option(min=0.01, metavar="HOURS", help="With --ledger and --yes: repeat at this interval")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Carry out the plan")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Delete old bundles, unused environments and mirrors.

    Without --yes, this command only prints the plan. Each deleted bundle leaves a signed tombstone. Bundles on hold, of
    open runs, or not valid always stay. Environments and mirrors stay while a stack runs. With --ledger, sealed runs,
    unused artifacts and dead letters on the bus expire as retention.json defines, and bundles stay.
    """
    if ledger:
        _gc_ledger(store, keys or [], repo or [], every, yes=yes, json_output=json_output)
    if repo or every is not None:
        raise MalformedError("--repo and --every go with --ledger", code="invalid_input")
    from gatewright.app.cli.bundle_retention import (
        CacheRound,
        carry_out,
        closing_lines,
        make_collector,
        plan_lines,
        result_document,
    )
    from gatewright.app.retention.plan import RetentionPolicy

    policy = RetentionPolicy(keep_last=keep.keep_last, keep_days=keep.keep_days, keep_failed_days=keep.keep_failed_days)
    collector = make_collector(policy, store)
    plan = collector.plan()
    caches = CacheRound.of(store, keep.keep_cache_days)
    if not json_output:
        for line in (*plan_lines(plan), *caches.plan_lines()):
            write_line(printable(line))
    done = carry_out(collector, plan) if yes else ()
    if yes:
        caches.carry_out()
    if json_output:
        emit({**result_document(plan, done, carried_out=yes), **caches.document()})
    else:
        for line in (*closing_lines(plan, done, carried_out=yes), *caches.closing_lines(carried_out=yes)):
            write_line(printable(line))
    raise typer.Exit(Exit.INFRASTRUCTURE if any(each.code for each in done) else Exit.GOOD)


def _gc_ledger(
    store: str | None, keys: list[Path], repositories: list[str], every: float | None, *, yes: bool, json_output: bool
) -> NoReturn:
    from gatewright.app.cli.branches import refuse_remote
    from gatewright.app.cli.ledger_expiry import expiry_round, play_rounds, refuse_without_yes, result_document, round_lines

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
            write_line(printable(line))
    raise typer.Exit(Exit.INFRASTRUCTURE if outcome.left else Exit.GOOD)


@reported
def hold(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="Run id or its beginning, STORE/RUN, or STORE to list holds", autocompletion=known_runs
        ),
    ] = None,
    *,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Reason for the record")] = None,
    release: Annotated[bool, typer.Option("--release", help="Release the hold")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Protect the bundle of a run from deletion.

    A hold lasts until you release it. Without a run, this command lists the holds.
    """
    from gatewright.app.cli.bundle_retention import change_hold, hold_lines, list_holds
    from gatewright.evidence.store.address import is_address, is_run

    if run is None or (is_address(run) and reason is None and not release and not is_run(run.rpartition("/")[2])):
        holds = list_holds(run)
        if json_output:
            emit({"holds": holds})
            return
        for line in hold_lines(holds):
            write_line(printable(line))
        return
    if not (reason or "").strip():
        raise MalformedError("give a reason: --reason TEXT", code="invalid_input")
    act = change_hold(run, "release" if release else "place", reason or "")
    if json_output:
        emit(act)
    else:
        write_line(printable(f"{act.run_id} is {'not ' if release else ''}on hold: {act.reason}"))


group = typer.Typer(help="List and delete branches created by runs.", no_args_is_help=True)
Repository = Annotated[
    str | None, typer.Option("--repo", metavar="PATH", help="Repository to read (default: current directory)")
]


def _register_branches(app: typer.Typer) -> None:
    app.add_typer(group, name="refs")


@group.command("list")
@reported
def list_refs(repo: Repository = None, json_output: JsonOutput = False) -> None:
    """List branches of runs and whether they are merged.

    The list ends with what the mirrors keep.
    """
    from gatewright.app.cli.branches import find_local_repository, list_branches, list_mirrors, ref_lines
    from gatewright.app.cli.context import find_place

    found, mirrors = list_branches(find_local_repository(repo)), list_mirrors(find_place().home)
    if json_output:
        emit({"refs": found, "mirrors": mirrors})
        return
    for line in ref_lines(found, mirrors, terminal_width()):
        write_line(printable(line))


@group.command("tidy")
@reported
def tidy_refs(
    run: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Delete only branches of these runs")] = None,
    *,
    repo: Annotated[
        list[str] | None,
        typer.Option("--repo", metavar="PATH|URL", help="Repository (default: current directory); several with --expired"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Delete named branches even if only they have their commit")] = False,
    expired: Annotated[
        bool, typer.Option("--expired", help="Delete only branches whose retention period in retention.json is over")
    ] = False,
    every: Annotated[
        float | None, typer.Option(min=0.01, metavar="HOURS", help="With --expired and --yes: repeat at this interval")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Carry out the plan")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Delete merged branches of runs.

    Without --yes, this command only prints the plan. Checked-out branches stay. The output names the commit of each
    branch: `git branch NAME COMMIT` restores it.
    """
    from gatewright.app.cli.branches import (
        delete_branches,
        find_local_repository,
        list_branches,
        plan_removal,
        refuse_remote,
        removal_lines,
    )

    if expired:
        if force or run:
            raise MalformedError("--expired uses the policy: give no run and no --force", code="invalid_input")
        _tidy_expired(repo or (), every, yes=yes, json_output=json_output)
    refuse_remote(repo or ())
    if every is not None or len(repo or ()) > 1:
        raise MalformedError("--every, and more than one --repo, go with --expired", code="invalid_input")
    repository = find_local_repository(repo[0] if repo else None)
    found = list_branches(repository)
    plan = plan_removal(found, run or (), force=force)
    if not json_output:
        for line in removal_lines(found, plan, carried_out=yes):
            write_line(printable(line))
    done = delete_branches(repository, plan) if yes else ()
    left = [each for each in done if each.code]
    if json_output:
        emit({"plan": [each.name for each in plan], "carried_out": yes, "done": done})
    for each in left if not json_output else ():
        write_line(printable(f"left gatewright/{each.name}: {each.message} [{each.code}]"))
    raise typer.Exit(Exit.FAILED if left else Exit.GOOD)


def _tidy_expired(repositories: Sequence[str], every: float | None, *, yes: bool, json_output: bool) -> NoReturn:
    from gatewright.app.cli.branches import RoundWatch, expiry_document, expiry_lines, left_lines, play_round

    if every is not None:
        _play_rounds(repositories, every, yes=yes)

    def print_plan(plan: Sequence[BranchItem]) -> None:
        for line in expiry_lines(plan, carried_out=yes):
            write_line(printable(line))

    watch = RoundWatch() if json_output else RoundWatch(begun=_report_repository, planned=print_plan, deleted=_report_branch)
    outcome = play_round(repositories, watch, yes=yes)
    if json_output:
        emit(expiry_document(outcome, carried_out=yes))
    else:
        for line in left_lines(outcome):
            write_line(printable(line))
    if outcome.unreached:
        raise typer.Exit(Exit.INFRASTRUCTURE)
    raise typer.Exit(Exit.FAILED if outcome.left else Exit.GOOD)


def _report_repository(place: str) -> None:
    note(f"looking at {place}")


def _report_branch(done: ItemOutcome[BranchItem]) -> None:
    """Report the outcome of a branch immediately: a server may be slow, and the command may be interrupted."""
    note(f"gatewright/{done.item.branch.name}: {f'left [{done.code}]' if done.code else 'deleted'}")


def _play_rounds(repositories: Sequence[str], hours: float, *, yes: bool) -> NoReturn:
    from gatewright.app.cli.branches import RoundWatch, find_sources, stoppable_round
    from gatewright.app.cli.ledger_expiry import play_rounds, refuse_without_yes

    refuse_without_yes(yes=yes)
    find_sources(repositories)  # such an error is not solved by another round

    def play(stop: asyncio.Event) -> Awaitable[RoundOutcome]:
        return stoppable_round(repositories, RoundWatch(), stop, yes=True)

    asyncio.run(play_rounds(play, hours, "branches"))
    raise typer.Exit(Exit.GOOD)


def register(app: typer.Typer) -> None:
    app.command()(gc)
    app.command()(hold)
    _register_branches(app)
