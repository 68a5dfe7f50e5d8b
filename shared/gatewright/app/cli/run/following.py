"""Following a run that another process keeps going."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

from gatewright.app.cli.outcome import Exit, exit_of_run
from gatewright.app.cli.run.display import Display, make_display
from gatewright.app.cli.runs.outputs import with_tails
from gatewright.app.cli.runs.view import RunView, advance
from gatewright.app.cli.runs.waits import WaitFinder
from gatewright.bus.port import Message
from gatewright.bus.topology import LIVE_SUBJECT
from gatewright.client.client import Client
from gatewright.contracts import AgentActivity, OrchestratorEvent, codec
from gatewright.errors import UnavailableError
from gatewright.ledger.events import RunFinished

#: Seconds that the bundle of a run that has ended may take to be sealed.
SEAL_PATIENCE = 20.0
#: Seconds without an event after which it is looked what a run waits for, and between two looks.
_LOOK_SECONDS = 2.0


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


@contextlib.asynccontextmanager
async def told_of_waits(finder: WaitFinder, current: Callable[[], RunView | None], display: Display) -> AsyncIterator[None]:
    """Meanwhile the display is told what the run waits for: whenever nothing has come of it for a while."""
    telling = asyncio.create_task(_tell_waits(finder, current, display))
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_waits(finder: WaitFinder, current: Callable[[], RunView | None], display: Display) -> None:
    told: tuple[str, ...] = ()
    last = ""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        view = current()
        if view is None:
            continue
        found = await finder.waits_of(view) if view.last == last else ()
        last = view.last
        # Ages are measured anew at every look: what counts as a change is what is waited for.
        if told != (told := tuple(wait.detail for wait in found)):
            display.waits(view, found)


@contextlib.asynccontextmanager
async def told_of_agents(
    client: Client, run_id: str, home: Path | None, current: Callable[[], RunView | None], display: Display
) -> AsyncIterator[None]:
    """Meanwhile the display is told what agents say they do, where the system runs on this host and its operator looks on."""
    over = False

    async def hear(message: Message) -> None:
        said, view = codec.decode(message.data, AgentActivity), current()
        if said.run_id == run_id and view is not None and not over:
            display.activity(view, said)

    if home is not None:
        await client.bus.listen(LIVE_SUBJECT, hear)
    try:
        yield
    finally:
        over = True


async def follow_to_end(client: Client, run_id: str, home: Path | None, *, json_output: bool) -> Exit:
    """Show a run until its bundle is sealed; the exit code that it deserves. Interrupting it leaves the run alone.

    ``home`` is the folder of the system where it runs on this host, else None.
    """
    display = make_display(json_output=json_output)
    view: RunView | None = None
    with display:
        async with (
            told_of_waits(WaitFinder(client.bus, home), lambda: view, display),
            told_of_agents(client, run_id, home, lambda: view, display),
            contextlib.aclosing(events_to_the_seal(client, run_id)) as events,
        ):
            async for record in events:
                view = advance(view, record)
                display.show(record, view)
    assert view is not None  # noqa: S101 - a run that is followed to its end has had events
    display.close(await with_tails(view, client.get_artifact))
    return exit_of_run(view.failure_family)
