"""Following a run that another process keeps going."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import msgspec

from gatewright.app.cli.outcome import Exit, exit_of_run
from gatewright.app.cli.run.display import Display, make_display
from gatewright.app.cli.runs.result import with_details
from gatewright.app.cli.runs.waits import WaitFinder
from gatewright.bus.port import Message
from gatewright.bus.topology import LIVE_SUBJECT
from gatewright.client.client import Client
from gatewright.contracts import AgentActivity, OrchestratorEvent, codec
from gatewright.errors import UnavailableError
from gatewright.host_errors import check_room
from gatewright.run.events import BundleSealed, RunFinished
from gatewright.view.run_view import RunView, advance

#: Seconds without news of the seal after which the disk is looked at, and seconds that a seal may take in all: the evidence of
#: a large change is searched for secrets, and a gatekeeper may have many runs to seal.
SEAL_PATIENCE = 20.0
LONGEST_SEAL = 180.0
#: Seconds without an event after which it is looked what a run waits for, and between two looks.
_LOOK_SECONDS = 2.0


async def events_to_the_seal(
    client: Client, run_id: str, home: Path | None, patience: float = SEAL_PATIENCE, longest: float = LONGEST_SEAL
) -> AsyncGenerator[OrchestratorEvent, None]:
    """The events of a run until its bundle is sealed.

    Raises UnavailableError (``bundle_not_sealed``) when that does not come within ``longest`` seconds of the end, or within
    ``patience`` where the volume of ``home``, the folder of the system on this host, is full. The run stands in the ledger as
    it ended, and its bundle is made as soon as it can be.
    """
    ended = ""
    async with contextlib.aclosing(client.follow(run_id)) as events:
        while True:
            coming = asyncio.ensure_future(_next(events))
            waited = 0.0
            try:
                while not (await asyncio.wait({coming}, timeout=patience if ended else None))[0]:
                    waited += patience
                    full = await asyncio.to_thread(_full_disk, home)
                    if full or waited >= longest:
                        raise _not_sealed(run_id, ended, waited, full)
                record = await coming
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            if record is None:
                return
            if record.event_type == RunFinished.event_type:
                ended = str(record.payload["status"])
            yield record


async def _next(events: AsyncGenerator[OrchestratorEvent, None]) -> OrchestratorEvent | None:
    return await anext(events, None)


def _full_disk(home: Path | None) -> str:
    """What is said of the volume of ``home`` where it has no room; empty where it has, or lies on another host."""
    if home is None:
        return ""
    try:
        check_room(home)
    except UnavailableError as error:
        return error.message
    return ""


def _not_sealed(run_id: str, ended: str, seconds: float, full: str) -> UnavailableError:
    words = f"{run_id} has ended as {ended}, and its bundle is not sealed after {seconds:.0f} s"
    cause = full or "The log of the gatekeeper names the cause (bundle_not_sealed)"
    return UnavailableError(f"{words}. {cause}. The gatekeeper tries again by itself", code="bundle_not_sealed")


@contextlib.asynccontextmanager
async def report_waits(finder: WaitFinder, current: Callable[[], RunView | None], display: Display) -> AsyncIterator[None]:
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
        found = await finder.waits_of(view) if view.run.at == last else ()
        last = view.run.at
        # Ages are measured anew at every look: what counts as a change is what is waited for.
        if told != (told := tuple(wait.detail for wait in found)):
            display.waits(view, found)


@contextlib.asynccontextmanager
async def report_activity(
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


def _with_place(record: OrchestratorEvent, place: Path) -> OrchestratorEvent:
    """``record`` with ``place`` as that of the bundle, where it tells one."""
    if record.event_type != BundleSealed.event_type:
        return record
    return msgspec.structs.replace(record, payload={**record.payload, "location": str(place)})


async def follow_to_end(
    client: Client, run_id: str, home: Path | None, *, json_output: bool, verbose: bool = False, kept: Path | None = None
) -> Exit:
    """Show a run until its bundle is sealed; the exit code that it deserves. Interrupting it leaves the run alone.

    ``home`` is the folder of the system where it runs on this host, else None. ``kept`` is the folder that the bundle is moved
    to afterwards, where that of the system does not outlive the run: the bundle is shown there.
    """
    display = make_display(json_output=json_output, verbose=verbose)
    view: RunView | None = None
    with display:
        async with (
            report_waits(WaitFinder(client.bus, home), lambda: view, display),
            report_activity(client, run_id, home, lambda: view, display),
            contextlib.aclosing(events_to_the_seal(client, run_id, home)) as events,
        ):
            async for record in events:
                shown = record if kept is None else _with_place(record, kept / run_id)
                view = advance(view, shown)
                display.show(shown, view)
    assert view is not None  # noqa: S101 - a run that is followed to its end has had events
    display.close(await with_details(view, client.get_artifact))
    return exit_of_run(view.failure_family)
