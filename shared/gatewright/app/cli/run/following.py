"""Display of a run that another process drives."""

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

#: Seconds without a seal until the disk is checked, and maximum seconds of a seal: the evidence of a large change is
#: searched for secrets, and a gatekeeper may have many runs to seal.
SEAL_PATIENCE = 20.0
LONGEST_SEAL = 180.0
#: Seconds without an event until the waits of a run are checked, and between two checks.
_LOOK_SECONDS = 2.0


async def events_to_the_seal(
    client: Client, run_id: str, home: Path | None, patience: float = SEAL_PATIENCE, longest: float = LONGEST_SEAL
) -> AsyncGenerator[OrchestratorEvent, None]:
    """Yield the events of a run until its bundle is sealed.

    Args:
        home: home folder of the local system, if any.
        patience: seconds without a seal until the volume of ``home`` is checked; a full volume ends the wait.
        longest: maximum seconds from the end to the seal.

    Raises:
        UnavailableError: ``bundle_not_sealed``. The run has ended in the ledger; its bundle is made once that is possible.
    """
    ended = ""
    async with contextlib.aclosing(client.follow(run_id)) as events:
        while True:
            coming = asyncio.ensure_future(_next_event(events))
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


async def _next_event(events: AsyncGenerator[OrchestratorEvent, None]) -> OrchestratorEvent | None:
    return await anext(events, None)


def _full_disk(home: Path | None) -> str:
    """Describe the full volume of ``home``; empty if it has free space, or is on another host."""
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
    """Display what the run waits for during the body, whenever it had no event for a while."""
    displaying = asyncio.create_task(_display_waits(finder, current, display))
    try:
        yield
    finally:
        displaying.cancel()
        await asyncio.gather(displaying, return_exceptions=True)


async def _display_waits(finder: WaitFinder, current: Callable[[], RunView | None], display: Display) -> None:
    displayed: tuple[str, ...] = ()
    last = ""
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        view = current()
        if view is None:
            continue
        found = await finder.waits_of(view) if view.run.at == last else ()
        last = view.run.at
        # Ages are measured at every check; only another kind of wait is a change.
        if displayed != (displayed := tuple(wait.detail for wait in found)):
            display.waits(view, found)


@contextlib.asynccontextmanager
async def report_activity(
    client: Client, run_id: str, home: Path | None, current: Callable[[], RunView | None], display: Display
) -> AsyncIterator[None]:
    """Display the activity that agents report during the body, if the system is local and the user is its operator."""
    over = False

    async def hear(message: Message) -> None:
        activity, view = codec.decode(message.data, AgentActivity), current()
        if activity.run_id == run_id and view is not None and not over:
            display.activity(view, activity)

    if home is not None:
        await client.bus.listen(LIVE_SUBJECT, hear)
    try:
        yield
    finally:
        over = True


def _with_place(record: OrchestratorEvent, place: Path) -> OrchestratorEvent:
    """Return ``record`` with ``place`` as the bundle's location, if it has one."""
    if record.event_type != BundleSealed.event_type:
        return record
    return msgspec.structs.replace(record, payload={**record.payload, "location": str(place)})


async def follow_to_end(
    client: Client, run_id: str, home: Path | None, *, json_output: bool, verbose: bool = False, kept: Path | None = None
) -> Exit:
    """Display a run until its bundle is sealed; return its exit code. Interrupting it does not affect the run.

    Args:
        home: home folder of the local system, if any.
        kept: folder that the bundle is moved to afterwards, if that of the system is temporary.
    """
    display = make_display(json_output=json_output, verbose=verbose)
    view: RunView | None = None
    with display:
        async with (
            report_waits(WaitFinder(client.bus, home, client.merge_queues), lambda: view, display),
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
