"""``refs``: the branches that runs have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, printable, reported, say

group = typer.Typer(help="The branches that runs have left, and which of them can go.", no_args_is_help=True)
Repository = Annotated[
    str | None, typer.Option("--repo", metavar="PATH", help="The repository; by default the one you stand in.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="refs")


@group.command("list")
@reported
def list_refs(repo: Repository = None, json_output: JsonOutput = False) -> None:
    """List the branches of runs: merged into another branch, not merged, or checked out; and what the mirrors keep."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.operations.run_branches import listed, mirrored, ref_lines, repository_of

    found, mirrors = listed(repository_of(repo)), mirrored(find_place().home)
    if json_output:
        emit({"refs": found, "mirrors": mirrors})
        return
    for line in ref_lines(found, mirrors):
        say(printable(line))


@group.command("tidy")
@reported
def tidy_refs(
    run: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Only the branches of these runs.")] = None,
    *,
    repo: Repository = None,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the named branches even where nothing else has their commit.")
    ] = False,
    expired: Annotated[
        bool,
        typer.Option(
            "--expired", help="Only merged branches whose sealed run is older than retention.json says, by its stored bundle."
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do what the plan says; without it the plan is only printed.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Delete branches of runs that are merged and not checked out: prints the plan first, deletes nothing without --yes.

    Every branch is named with its commit: `git branch NAME COMMIT` makes it again.
    """
    from gatewright.app.cli.operations.run_branches import listed, plan_lines, planned, repository_of, tidy
    from gatewright.app.cli.outcome import Exit

    repository = repository_of(repo)
    if expired:
        _tidy_expired(repository, run or (), force=force, yes=yes, json_output=json_output)
    found = listed(repository)
    plan = planned(found, run or (), force=force)
    if not json_output:
        for line in plan_lines(found, plan, carried_out=yes):
            say(printable(line))
    done = tidy(repository, plan) if yes else ()
    left = [each for each in done if each.code]
    if json_output:
        emit({"plan": [each.name for each in plan], "carried_out": yes, "done": done})
    for each in left if not json_output else ():
        say(printable(f"left gatewright/{each.name}: {each.message} [{each.code}]"))
    raise typer.Exit(Exit.FAILED if left else Exit.GOOD)


def _tidy_expired(repository: Path, wanted: Sequence[str], *, force: bool, yes: bool, json_output: bool) -> NoReturn:
    from gatewright.app.cli.operations.run_branches import expiry_lines, expiry_of, listed
    from gatewright.app.cli.outcome import Exit
    from gatewright.errors import MalformedError

    if force or wanted:
        raise MalformedError("--expired goes by policy: name no run, and no --force", code="invalid_input")
    expiry = expiry_of(repository)
    plan = expiry.plan(listed(repository))
    if not json_output:
        for line in expiry_lines(plan, carried_out=yes):
            say(printable(line))
    done = expiry.carry_out(plan) if yes else ()
    left = [each for each in done if each.code]
    if json_output:
        items = [
            {"name": each.branch.name, "commit": each.branch.commit, "action": each.action, "why": each.why} for each in plan
        ]
        gone = [
            {"name": e.item.branch.name, "commit": e.item.branch.commit, "code": e.code, "message": e.message} for e in done
        ]
        emit({"items": items, "carried_out": yes, "done": gone})
    for each in left if not json_output else ():
        say(printable(f"left gatewright/{each.item.branch.name}: {each.message} [{each.code}]"))
    raise typer.Exit(Exit.FAILED if left else Exit.GOOD)
