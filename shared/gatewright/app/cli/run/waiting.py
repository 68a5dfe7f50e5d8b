"""``gatewright watch`` before there is anything to watch: it waits for a system, and for the run, and says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.runs.ledger_source import LedgerSource
from gatewright.app.cli.runs.sources import WHOLE_ID, find_run
from gatewright.app.cli.session import attach_client
from gatewright.app.stack.state import read
from gatewright.client.client import Client
from gatewright.errors import MalformedError, UnavailableError

#: Seconds between two looks for a stack, or for a first run.
_LOOK_AGAIN = 0.2


@contextlib.asynccontextmanager
async def attached_when_there(place: CommandContext, note: Callable[[str], None]) -> AsyncIterator[Client]:
    """A client of the system that runs now, or as soon as one runs in the home folder. Raises BusError."""
    told = place.bus is not None
    while place.bus is None and read(place.home) is None:
        if not told:
            note("no stack runs here yet: waiting for one (Ctrl-C stops waiting)")
            told = True
        await asyncio.sleep(_LOOK_AGAIN)
    async with attach_client(place.bus, place.home) as client:
        yield client


async def run_when_there(client: Client, wanted: str | None, note: Callable[[str], None]) -> str:
    """The id of the run that is meant, once that run exists: the newest one, or the first to come; or one of that id.

    Raises MalformedError (``run_unknown``, ``run_ambiguous``) for what cannot be the id of a run to come.
    """
    source = LedgerSource(client)
    by_id = wanted is not None and WHOLE_ID.fullmatch(wanted) is not None  # only such a one can be that of a run to come
    told = False
    while True:
        try:
            run_id = await find_run(source, wanted)
            if by_id:
                await source.view(run_id)  # nothing has looked yet whether there is one of that id
        except MalformedError as error:
            if error.reason != "run_unknown" or not (by_id or wanted is None):
                raise
        else:
            return run_id
        if not told:
            note(f"there is no {wanted} yet: waiting for it" if wanted else "there are no runs yet: waiting for the first one")
            told = True
        if wanted is not None:
            async with contextlib.aclosing(client.follow(wanted)) as events:
                await anext(events)
            return wanted
        await asyncio.sleep(_LOOK_AGAIN)


@contextlib.asynccontextmanager
async def no_longer_than(seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
    """Bounds the wait for a run; ``reschedule(None)`` when it has come. UnavailableError (``run_not_there``) after that."""
    try:
        async with asyncio.timeout(seconds) as bound:
            yield bound
    except TimeoutError:
        if not bound.expired():
            raise
        raise UnavailableError(f"no such run came within {seconds:g} s", code="run_not_there") from None
