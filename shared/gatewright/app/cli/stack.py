"""``up`` and ``down``: the stack of a home folder; also its summary for ``status`` and ``doctor``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewright.app.cli.options import Environments, JsonOutput
from gatewright.app.cli.output import reported
from gatewright.order_form.run_options import MOST_WORKERS
from gatewright.view.safe_text import size_words

if TYPE_CHECKING:
    from gatewright.app.stack.state import StackState


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)


@reported
def up(
    workers: Annotated[int, typer.Option(min=1, max=MOST_WORKERS, help="Number of worker processes")] = 2,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background")] = False,
    env: Environments = None,
    linger: Annotated[
        float | None, typer.Option(min=0.01, metavar="MINUTES", help="Stop after this many minutes without a command")
    ] = None,
    console: Annotated[bool, typer.Option("--console", help="Also serve the live page (see: gatewright console)")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Start the stack of this home folder: NATS and six roles.

    Runs share a running stack and start immediately.
    """
    from gatewright.app.cli.stack_process import bring_up, bring_up_detached

    given = tuple(env or ())
    if detach:
        bring_up_detached(workers, given, console=console, linger=linger or 0.0, json_output=json_output)
    else:
        up = bring_up(workers, given, console=console, linger=linger or 0.0, json_output=json_output)
        raise typer.Exit(asyncio.run(up))


@reported
def down(json_output: JsonOutput = False) -> None:
    """Stop the stack of this home folder.

    Open runs continue when the stack starts again.
    """
    from gatewright.app.cli.stack_process import bring_down

    bring_down(json_output=json_output)


def stack_document(home: Path) -> dict[str, Any] | None:
    """Describe the stack for programs; None if none runs. ``kind`` is ``lingering``, ``kept`` (by ``up``) or ``of one run``."""
    from gatewright.app.stack.lingering import memory, unused
    from gatewright.app.stack.state import read

    running = read(home)
    if running is None:
        return None
    document: dict[str, Any] = {
        "pid": running.pid,
        "home": str(home),
        "kind": _kind(running),
        "workers": running.workers,
        "ready": running.ready,
        "memory": memory(running.pid),
    }
    if running.linger:
        with unused(home) as free:
            document |= {"linger_minutes": running.linger, "in_use": not free}
    return document


def stack_words(home: Path) -> str:
    """Describe the stack on one line."""
    found = stack_document(home)
    if found is None:
        return "no stack runs; a run starts one"
    words = f"process {found['pid']}, {size_words(found['memory'])} of memory"
    if found["kind"] != "lingering":
        return f"a stack {'that `gatewright up` keeps' if found['kind'] == 'kept' else 'of one run'} ({words})"
    use = "in use" if found["in_use"] else "idle"
    ends = f"it ends after {found['linger_minutes']:g} idle minutes, or by `gatewright down`"
    return f"a stack that lingers, {use}: {ends} ({words})"


def _kind(running: StackState) -> str:
    if running.linger:
        return "lingering"
    return "kept" if running.shared else "of one run"
