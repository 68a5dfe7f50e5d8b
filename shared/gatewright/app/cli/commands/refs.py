"""``refs``: the branches that runs have left."""

from __future__ import annotations

from typing import Annotated

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
    yes: Annotated[bool, typer.Option("--yes", help="Do what the plan says; without it the plan is only printed.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Delete branches of runs that are merged and not checked out: prints the plan first, deletes nothing without --yes.

    Every branch is named with its commit: `git branch NAME COMMIT` makes it again.
    """
    from gatewright.app.cli.operations.run_branches import listed, plan_lines, planned, repository_of, tidy
    from gatewright.app.cli.outcome import Exit

    repository = repository_of(repo)
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
