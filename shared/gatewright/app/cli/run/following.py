"""Following a run that another process keeps going."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from gatewright.app.cli.outcome import Exit, exit_of_run
from gatewright.app.cli.run.display import make_display
from gatewright.app.cli.runs.outputs import with_tails
from gatewright.app.cli.runs.view import RunView, advance
from gatewright.client.client import Client
from gatewright.contracts import OrchestratorEvent
from gatewright.errors import UnavailableError
from gatewright.ledger.events import RunFinished

#: Seconds that the bundle of a run that has ended may take to be sealed.
SEAL_PATIENCE = 20.0


async def events_to_the_seal(
    client: Client, run_id: str, patience: float = SEAL_PATIENCE
) -> AsyncGenerator[OrchestratorEvent, None]:
    """The events of a run until its bundle is sealed.

    Raises UnavailableError (``bundle_not_sealed``) when that does not come within ``patience`` seconds of the end: the disk of
    the gatekeeper may be full. The run itself stands in the ledger as it ended, and its bundle is made as soon as it can be.
    """
    ended = ""
    async with contextlib.aclosing(client.follow(run_id)) as events:
        while True:
            try:
                async with asyncio.timeout(patience if ended else None):
                    record = await anext(events)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise UnavailableError(
                    f"{run_id} has ended as {ended}, but its bundle is not sealed after {patience:.0f} s. Is the disk of the "
                    "gatekeeper full? It tries again until there is room, and after every start",
                    code="bundle_not_sealed",
                ) from None
            if record.event_type == RunFinished.event_type:
                ended = str(record.payload["status"])
            yield record


async def follow_to_end(client: Client, run_id: str, *, json_output: bool) -> Exit:
    """Show a run until its bundle is sealed; the exit code that it deserves. Interrupting it leaves the run alone."""
    display = make_display(json_output=json_output)
    view: RunView | None = None
    with display:
        async with contextlib.aclosing(events_to_the_seal(client, run_id)) as events:
            async for record in events:
                view = advance(view, record)
                display.show(record, view)
    assert view is not None  # noqa: S101 - a run that is followed to its end has had events
    display.close(await with_tails(view, client.get_artifact))
    return exit_of_run(view.failure_family)
