"""``context``: what a run has come to, in words for models and for reviewers."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say


def register(app: typer.Typer) -> None:
    app.command()(context)


@reported
def context(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run id or its beginning.")],
    *,
    select: Annotated[
        list[str] | None,
        typer.Option(
            metavar="summary|decisions|review|diff",
            help="A section; may be given again.",
            show_default="summary and decisions",
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="64,000 characters of each section, and superseded decisions.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Tell what a run has come to, as blocks of data that a model can be given. It orders nothing and decides nothing."""
    import asyncio

    import msgspec

    from gatewright.app.cli.runs.context import ask_context, lines_of

    found = asyncio.run(ask_context(run, select or ["summary", "decisions"], full=full))
    if json_output:
        emit(msgspec.to_builtins(found))
        return
    for line in lines_of(found):
        say(line)
    note(f"{found.run_id} stood so after its event {found.seq}: {found.state}, round {found.attempt}")
