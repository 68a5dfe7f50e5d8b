"""A connection to a system for one command: a bus that was named, the stack of the home folder, or one started for a run."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.stack.state import StackState, read
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import BusAddress
from gatewright.client.client import Client
from gatewright.errors import MalformedError, UnavailableError
from gatewright.tasks.inputs import EVERY, offered_below

#: Seconds between two looks at a home folder that another run uses.
_LOOK_AGAIN = 0.2
#: Seconds that a server which should be there is waited for.
CONNECT_PATIENCE = 3.0


@dataclass(frozen=True, slots=True)
class StackSession:
    """``supervisor`` is there when the stack belongs to this command alone, ``home`` when it runs on this host."""

    client: Client
    supervisor: Supervisor | None = None
    home: Path | None = None

    async def broken(self) -> None:
        """Raises when a process of our own stack cannot be kept alive; else waits for ever."""
        if self.supervisor is not None:
            await self.supervisor.broken()
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def attached(bus: BusAddress | None, home: Path, *, lasting: bool = False) -> AsyncIterator[Client]:
    """A client of the system that runs now; with ``lasting`` only of one that does not end with a run.

    Raises UnavailableError (code ``no_stack``) when none does, BusError when it cannot be reached.
    """
    if bus is None:
        state = read(home)
        if state is None or (lasting and not state.shared):
            raise UnavailableError(
                "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL", code="no_stack"
            )
        bus = state.address()
    async with Client.connect(bus, requested_by="command line", patience=CONNECT_PATIENCE) as client:
        yield client


@contextlib.asynccontextmanager
async def for_one_run(
    bus: BusAddress | None, options: StackOptions, note: Callable[[str], None]
) -> AsyncIterator[StackSession]:
    """A session to do a run in: on the named bus, on the shared stack, else on a stack that lives as long as the run.

    A home folder serves one stack at a time: while another run has one of its own, this one waits for it.
    """
    state = read(options.home) if bus is None else None
    if bus is not None or (state is not None and state.shared):
        if state is not None:
            refuse_unoffered(state, options)
        async with attached(bus, options.home) as client:
            yield StackSession(client, home=options.home if bus is None else None)
        return
    supervisor = Supervisor(options)
    await _start(supervisor, options.home, note)
    try:
        async with Client.connect(supervisor.address, requested_by="command line", patience=CONNECT_PATIENCE) as client:
            yield StackSession(client, supervisor, options.home)
    finally:
        await supervisor.stop()


async def _start(supervisor: Supervisor, home: Path, note: Callable[[str], None]) -> None:
    told = False
    while True:
        try:
            await supervisor.start()
        except UnavailableError as error:
            if error.reason != "home_in_use":
                raise
        else:
            return
        state = read(home)
        if not told:
            who = f" (process {state.pid})" if state else ""
            note(f"waiting for another run in {home}{who}; `gatewright up` lets runs share one stack")
            told = True
        await asyncio.sleep(_LOOK_AGAIN)


def refuse_unoffered(state: StackState, options: StackOptions) -> None:
    """MalformedError, with what to start instead, when the running stack offers not all environments that are wanted."""
    offered = tuple(map(Path, state.environments))
    missing = [str(each) for each in options.environments if each not in offered and not offered_below(each, offered)]
    if missing:
        # What lies in the home folder is offered unasked, and no folder of that name could be given.
        given = (str(each) for each in offered if each.name != EVERY)
        asked = (str(each) for each in options.environments if each.name != EVERY)
        wanted = dict.fromkeys((*given, *asked))
        again = shlex.join(["gatewright", "up", *(word for prefix in wanted for word in ("--env", prefix))])
        raise MalformedError(
            f"the running stack does not offer the environment {missing[0]}: retry after `gatewright down` and `{again}`",
            code="invalid_input",
        )


def refuse_live(bus: BusAddress | None, home: Path, cassette: Path) -> None:
    """MalformedError for a system that runs already and may ask models, where ``cassette`` is to be played."""
    state = read(home) if bus is None else None
    if bus is None and (state is None or not state.shared or state.cassette == str(cassette.absolute())):
        return
    here = "another system" if bus is not None else "the running stack"
    instead = "unset GATEWRIGHT_NATS_URL" if bus is not None else "retry after `gatewright down`"
    raise MalformedError(f"{here} does not play {cassette}, and could ask models: {instead}", code="invalid_input")
