"""The table of commands: each group is a module that registers its commands.

Each start loads all of these modules. They import at their top only what ``--help`` needs, and all else where it is used.
"""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli import (
    agents,
    backups,
    check,
    console,
    dead_letters,
    doctor,
    evidence,
    hooks,
    identities,
    keys,
    mcp,
    prompts,
    queues,
    refs,
    retention,
    run_context,
    schemas,
    show,
    stack,
    top,
    topology,
)
from gatewright.app.cli.people import deciding, reviewing, sign_agent, summoning
from gatewright.app.cli.run import commands as run
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
    run,
    agents,
    deciding,
    reviewing,
    run_context,
    summoning,
    show,
    stack,
    evidence,
    retention,
    schemas,
    prompts,
    topology,
    identities,
    dead_letters,
    queues,
    keys,
    check,
    hooks,
    refs,
    backups,
    console,
    sign_agent,
    mcp,
    top,
    doctor,
):
    module.register(app)
