"""``run``, ``submit`` and ``abort``: commands that change what happens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import JsonOutput, Verbose, grouped
from gatewright.app.cli.output import emit, reported, say
from gatewright.app.cli.schemas import read_submittable
from gatewright.order_form.run_options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cli.run.ahead import Begun
    from gatewright.app.cli.run.display import Display
    from gatewright.contracts import RunRequest, TaskContract
    from gatewright.view.run_view import RunView

#: Seconds that an aborted run is given to end and be sealed.
ABORT_WAIT = 30.0
_HELP_RUN = """Have a change made, judged, tested and landed.

The change is made by --agent (a coding agent, in a sandbox), --model (a model), --exec (a command, in a sandbox), --patch \
(a diff), --reply (a model's recorded answer) or --head (commits that exist). \
It may touch only the --allow paths, and lands only when every --test command succeeds on it.

Example: gatewright run "rename parse to read" --allow src --exec "python rename.py" --test "python -m pytest -q"
"""


def register(app: typer.Typer) -> None:
    app.command(help=_HELP_RUN)(run)
    app.command()(submit)
    app.command()(abort)


@reported
@grouped
def run(context: typer.Context, *, options: RunOptions, verbose: Verbose = False, json_output: JsonOutput = False) -> None:
    from gatewright.app.cli.run.ahead import Begun, begin_ahead

    if isinstance(context.obj, Begun):
        raise typer.Exit(_run(context.obj, options, verbose=verbose, json_output=json_output))
    with begin_ahead() as ahead:
        raise typer.Exit(_run(ahead, options, verbose=verbose, json_output=json_output))


def _run(begun: Begun, options: RunOptions, *, verbose: bool, json_output: bool) -> int:
    # Imported only now: it takes half as long as the fork server's start, and is done on another core.
    from gatewright.app.cli.run.ahead import linger_minutes
    from gatewright.app.cli.run.start import start_run

    linger = linger_minutes(options.linger)
    started = start_run(options, verbose=verbose, json_output=json_output, ahead=begun.ahead, linger=linger, ask=_ask_owner)
    return begun.runner.run(started)


def _ask_owner(place: CommandContext, display: Display) -> AbstractAsyncContextManager[Callable[[RunView], None]]:
    # Imported only once the run goes on: most runs ask for nothing.
    from gatewright.app.cli.people.asking import owner_asked

    return owner_asked(place, display)


@reported
def submit(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A run request or task contract as JSON; - reads standard input.")
    ],
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run until it has ended.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Submit a run request or a task contract to the running system; you are who orders it, unless it names a person."""
    from gatewright.app.cli.user_git import with_orderer

    document = with_orderer(read_submittable(file), Path())
    raise typer.Exit(asyncio.run(_submit(document, wait=wait, json_output=json_output)))


async def _submit(document: RunRequest | TaskContract, *, wait: bool, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.run.following import follow_to_end
    from gatewright.app.cli.session import attach_client
    from gatewright.contracts import RunRequest

    place = find_place()
    async with attach_client(place.bus, place.home, lasting=True) as client:
        if isinstance(document, RunRequest):
            run_id = await client.submit_request(document)
        else:
            run_id = await client.submit_contract(document)
        if wait:
            return await follow_to_end(client, run_id, place.own_home, json_output=json_output)
    answer: dict[str, Any] = {"run_id": run_id}
    if json_output:
        emit(answer)
    else:
        say(f"accepted {run_id}\n  next: gatewright watch {run_id}")
    return 0


@reported
def abort(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run id or its beginning.")],
    reason: Annotated[str, typer.Option(help="Why; it is written into the run's record.")] = "aborted by the operator",
    json_output: JsonOutput = False,
) -> None:
    """End a run that is still open: its work stops, nothing lands, its bundle says ABORTED."""
    raise typer.Exit(asyncio.run(_abort(run_id, reason, json_output=json_output)))


async def _abort(wanted: str, reason: str, *, json_output: bool) -> int:
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.ledger_source import LedgerSource
    from gatewright.app.cli.runs.result import result_of
    from gatewright.app.cli.runs.sources import find_run
    from gatewright.app.cli.session import attach_client
    from gatewright.view.run_view import view_of

    place = find_place()
    async with attach_client(place.bus, place.home) as client:
        run_id = await find_run(LedgerSource(client), wanted)
        await client.abort(run_id, reason)
        await client.wait(run_id, timeout=ABORT_WAIT)
        view = view_of(await client.events(run_id))
    if view is not None and json_output:
        emit(result_of(view))
    elif view is not None:
        say(f"{run_id} is {view.run.status}\n  bundle {view.bundle}")
    return 0
