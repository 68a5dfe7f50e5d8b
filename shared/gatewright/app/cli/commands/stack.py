"""``up`` and ``down``: the stack of a home folder, for as long as it is wanted."""

from __future__ import annotations

from typing import Annotated

import typer

from gatewright.app.cli.options import Environments, JsonOutput
from gatewright.app.cli.output import reported
from gatewright.order_form.run_options import MOST_WORKERS


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)


@reported
def up(
    workers: Annotated[int, typer.Option(min=1, max=MOST_WORKERS, help="Worker processes.")] = 2,
    detach: Annotated[bool, typer.Option("--detach", help="Leave it running in the background.")] = False,
    env: Environments = None,
    linger: Annotated[
        float | None,
        typer.Option(min=0.01, metavar="MINUTES", help="End after so many minutes in which no command uses it."),
    ] = None,
    console: Annotated[bool, typer.Option("--console", help="Serve the live page beside it (`gatewright console`).")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Start the embedded NATS server and the six roles, so that runs share them and start at once."""
    import asyncio

    from gatewright.app.cli.operations.stack import bring_up, bring_up_detached

    given = tuple(env or ())
    if detach:
        bring_up_detached(workers, given, console=console, linger=linger or 0.0, json_output=json_output)
    else:
        up = bring_up(workers, given, console=console, linger=linger or 0.0, json_output=json_output)
        raise typer.Exit(asyncio.run(up))


@reported
def down(json_output: JsonOutput = False) -> None:
    """Stop the stack of this home folder. Open runs go on when it is started again."""
    from gatewright.app.cli.operations.stack import bring_down

    bring_down(json_output=json_output)
