"""The table of commands."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.commands import (
    agents,
    checking,
    context,
    dead,
    evidence,
    following,
    hooks,
    house,
    keys,
    prompts,
    queue,
    refs,
    reporting,
    retention,
    running,
    schemas,
    stack,
)
from gatewright.app.cli.commands.bus import identities, topology
from gatewright.app.cli.commands.clients import console, mcp, top
from gatewright.app.cli.commands.upkeep import backups
from gatewright.app.cli.people import deciding, reviewing, sign_agent, summoning
from gatewright.version import __version__

app = typer.Typer(
    name="gatewright",
    help="Governed software delivery: every change under contract, proved by gates, left behind as signed evidence.",
    epilog="Exit codes: 0 good, 1 the run or the check failed, 2 bad input, 3 something that is needed cannot be had.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"gatewright {__version__}")
        raise typer.Exit


@app.callback()
def gatewright(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass


for module in (
    running,
    agents,
    deciding,
    reviewing,
    context,
    summoning,
    following,
    stack,
    evidence,
    reporting,
    retention,
    schemas,
    prompts,
    topology,
    identities,
    dead,
    queue,
    keys,
    checking,
    hooks,
    refs,
    backups,
    console,
    sign_agent,
    mcp,
    top,
    house,
):
    module.register(app)
