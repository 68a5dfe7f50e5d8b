"""``context``: what a run has come to, in words for models and for reviewers."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say


def register(app: typer.Typer) -> None:
    app.command()(context)


@reported
def context(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run id or its beginning.")] = None,
    *,
    repository: Annotated[
        str | None, typer.Option("--repo", metavar="PLACE", help="In the place of a run: what earlier runs there came to.")
    ] = None,
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

    from gatewright.app.cli.runs.context import ask_context, ask_memory, lines_of, memory_lines
    from gatewright.errors import MalformedError

    if (run is None) == (repository is None):
        raise MalformedError("name a run, or a repository with --repo", code="missing")
    if repository is not None:
        memory = asyncio.run(ask_memory(repository))
        if json_output:
            emit(msgspec.to_builtins(memory))
            return
        for line in memory_lines(memory):
            say(line)
        return
    found = asyncio.run(ask_context(run or "", select or ["summary", "decisions"], full=full))
    if json_output:
        emit(msgspec.to_builtins(found))
        return
    for line in lines_of(found):
        say(line)
    note(f"{found.run_id} stood so after its event {found.seq}: {found.state}, round {found.attempt}")
