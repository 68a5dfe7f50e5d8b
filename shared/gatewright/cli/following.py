"""Following a run that somebody else keeps going."""

from __future__ import annotations

import contextlib

from gatewright.cli.display import make_display
from gatewright.cli.outcome import Exit, exit_of_run
from gatewright.cli.view import RunView, advance
from gatewright.client.client import Client


async def follow_to_end(client: Client, run_id: str, *, json_output: bool) -> Exit:
    """Show a run until its bundle is sealed; the exit code that it deserves. Interrupting it leaves the run alone."""
    display = make_display(json_output=json_output)
    view: RunView | None = None
    with display:
        async with contextlib.aclosing(client.follow(run_id)) as events:
            async for record in events:
                view = advance(view, record)
                display.show(record, view)
    assert view is not None  # noqa: S101 - a run that is followed to its end has had events
    display.close(view)
    return exit_of_run(view.run.failure.code if view.run.failure else None)
