"""``summon``: read-only questions to roles about a run that is open."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say

#: Seconds that answers are waited for.
WAIT = 180.0


def register(app: typer.Typer) -> None:
    app.command()(summon)


@reported
def summon(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id or its beginning.")],
    question: Annotated[str | None, typer.Argument(metavar="[QUESTION]", help="Left out: what was asked and answered.")] = None,
    *,
    role: Annotated[
        list[str] | None, typer.Option(metavar="pm|techlead|reviewer", help="Who is asked; may be given again.")
    ] = None,
    kind: Annotated[
        str, typer.Option(metavar="review|qa|critique|research|plan", help="What sort of question it is.")
    ] = "critique",
    constraint: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="What the answer is to keep to; may be given again.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the answers.")] = True,
    timeout: Annotated[float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait for them.")] = WAIT,
    json_output: JsonOutput = False,
) -> None:
    """Ask roles about an open run. Their answers are evidence beside it: they order nothing and satisfy no gate."""
    import asyncio

    import msgspec

    from gatewright.app.cli.people.summoning import items_of, lines_of, shown_standings
    from gatewright.app.cli.people.summoning import summon as ask

    items = items_of(role or ["reviewer"], question, kind, constraint or []) if question is not None else ()
    listed = asyncio.run(ask(run, items, timeout if wait else None))
    if json_output:
        emit(msgspec.to_builtins(listed))
    else:
        for line in lines_of(listed):
            say(line)
        note(f"{listed.left} more questions may be asked about this run")
    if items and wait and any(each.answer is None or each.answer.status != "ANSWERED" for each in shown_standings(listed)):
        raise typer.Exit(1)
