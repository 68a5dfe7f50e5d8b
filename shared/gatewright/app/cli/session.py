"""Connection of one command to a system: a bus that was named, the stack of the home folder, or a new stack for a run."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from gatewright.app.cli.context import CommandContext
from gatewright.app.stack.lingering import ended_for, fits, in_use
from gatewright.app.stack.lingering_start import LingeringStart
from gatewright.app.stack.state import StackState, read
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import BusAddress
from gatewright.client.client import Client
from gatewright.errors import ConfigurationError, DeniedError, MalformedError, UnavailableError
from gatewright.sandbox.offers import add_offers, read_offers
from gatewright.tasks.inputs import EVERY, offered_below

#: Seconds between two checks of a home folder that another run uses.
_LOOK_AGAIN = 0.2
#: The same for a stack that is starting for this run.
_LOOK_FOR_START = 0.02
#: Seconds between two checks whether the stack of a command still runs.
_LOOK_FOR_END = 1.0
#: Maximum seconds to wait for a server that should be running.
CONNECT_PATIENCE = 3.0
#: Maximum seconds from the start of a stack to its gatekeeper's first answer; a start is slow on a busy host.
STARTING_PATIENCE = 120.0


@dataclass(frozen=True, slots=True)
class StackSession:
    """A system for one run. ``supervisor`` is set if this command owns the stack, ``home`` if the system is local."""

    client: Client
    supervisor: Supervisor | None = None
    home: Path | None = None

    async def broken(self) -> None:
        """Raise an error when a process of the own stack cannot be kept alive; else wait forever."""
        if self.supervisor is not None:
            await self.supervisor.broken()
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def attach_client(bus: BusAddress | None, home: Path, *, lasting: bool = False) -> AsyncIterator[Client]:
    """Connect a client to the running system; with ``lasting`` only to one that does not end with a run.

    Raises:
        UnavailableError: ``no_stack``; ``stack_gone`` if the stack ends meanwhile.
        BusError: the bus cannot be reached.
    """
    running: contextlib.AbstractAsyncContextManager[None] = contextlib.nullcontext()
    if bus is None:
        state = read(home)
        if state is None or (lasting and not state.shared):
            raise UnavailableError(
                "no stack runs here: start one with `gatewright up`, or set GATEWRIGHT_NATS_URL", code="no_stack"
            )
        bus, running = state.address(), while_it_runs(home, state.url)
    async with running, Client.connect(bus, requested_by="command line", patience=CONNECT_PATIENCE) as client:
        yield client


@contextlib.asynccontextmanager
async def while_it_runs(home: Path, url: str) -> AsyncIterator[None]:
    """End the body with UnavailableError (``stack_gone``) when the stack of ``home`` at ``url`` ends.

    A restarted stack has another address, so waiting for the old one would never end. A lingering stack does not stop for being
    idle meanwhile.
    """
    try:
        with in_use(home):
            async with asyncio.timeout(None) as limit:
                looking = asyncio.create_task(_end_with(home, url, limit))
                try:
                    yield
                finally:
                    looking.cancel()
    except TimeoutError:
        if not limit.expired():
            raise
        raise UnavailableError(
            f"the stack of {home} has ended: `gatewright up` goes on with what was under way, then `gatewright watch` shows it",
            code="stack_gone",
        ) from None


async def _end_with(home: Path, url: str, limit: asyncio.Timeout) -> None:
    """Expire ``limit`` when the stack with that address no longer runs in ``home``."""
    gone = False
    while not gone:
        await asyncio.sleep(_LOOK_FOR_END)
        with contextlib.suppress(ConfigurationError):  # an unreadable state file does not mean that the stack ended
            state = await asyncio.to_thread(read, home)
            gone = state is None or state.url != url
    limit.reschedule(0)


@contextlib.asynccontextmanager
async def for_one_run(
    bus: BusAddress | None,
    options: StackOptions,
    note: Callable[[str], None],
    *,
    linger: float = 0.0,
    announce: Callable[[str], None] = lambda _words: None,
) -> AsyncIterator[StackSession]:
    """Open a session for one run: on the named bus, on the shared stack, or on a stack of its own.

    A home folder serves one stack at a time. While another run has a stack of its own there, this one waits.

    Args:
        linger: idle minutes until a stack that this run starts ends (``gatewright.app.stack.lingering``); 0 ends it with the
            run.
        announce: receives a notice about a lingering stack at the end.
    """
    async with contextlib.AsyncExitStack() as opened:
        supervisor, started = (None, False) if bus is not None else await _own_stack(options, note, linger, opened)
        if supervisor is None:
            client = await opened.enter_async_context(attach_client(bus, options.home))
            yield StackSession(client, home=options.home if bus is None else None)
            if started:
                announce(
                    f"the stack stays for {linger:g} idle minutes, so that the next run starts at once; "
                    "`gatewright down` ends it, --no-linger leaves none"
                )
            return
        done = False
        try:
            async with Client.connect(supervisor.address, requested_by="command line", patience=CONNECT_PATIENCE) as client:
                yield StackSession(client, supervisor, options.home)
            done = True
        finally:
            await supervisor.stop(idle=done)


async def _own_stack(
    options: StackOptions, note: Callable[[str], None], linger: float, opened: contextlib.AsyncExitStack
) -> tuple[Supervisor | None, bool]:
    """Start a stack for this run alone; None if a shared stack serves, which is then in use.

    The second value is whether this run started a shared stack.
    """
    supervisor, home, notified = Supervisor(options), options.home, False
    starting: LingeringStart | None = None
    while True:
        state = await asyncio.to_thread(read, home)
        if state is not None and state.shared and await asyncio.to_thread(_join_stack, options, opened):
            offer_missing(state, options, note)
            return None, starting is not None
        if state is None or (state.shared and await asyncio.to_thread(ended_for, home, options)):
            if linger:
                # A lost race found a stack of another run in the home, which that run has ended since.
                if starting is None or starting.lost():
                    starting = LingeringStart.begin(options, linger)
            elif await _begin_stack(supervisor):
                return supervisor, False
        elif not notified:
            who = f" (process {state.pid})" if state else ""
            note(f"waiting for another run in {home}{who}; `gatewright up` lets runs share one stack")
            notified = True
        await asyncio.sleep(_LOOK_AGAIN if starting is None else _LOOK_FOR_START)


def _join_stack(options: StackOptions, opened: contextlib.AsyncExitStack) -> bool:
    """Join the stack of the home if it fits, until ``opened`` is closed; return whether it did."""
    with contextlib.ExitStack() as held:
        held.enter_context(in_use(options.home))
        state = read(options.home)
        if state is None or not fits(state, options):
            return False
        opened.push(held.pop_all())
    return True


async def _begin_stack(supervisor: Supervisor) -> bool:
    """Start a stack; return False while another process has the home folder."""
    try:
        await supervisor.begin()
    except UnavailableError as error:
        if error.reason != "home_in_use":
            raise
        return False
    return True


def offer_missing(state: StackState, options: StackOptions, note: Callable[[str], None]) -> None:
    """Offer the environments of this run to the running stack, until it ends: its owner has named them.

    Raises:
        MalformedError: the roles of the stack read no offers, or there are too many; names what to start instead.
        ConfigurationError: the list is not private to the owner.
    """
    offered = tuple(map(Path, state.environments))
    missing = [each for each in options.environments if each not in offered and not offered_below(each, offered)]
    if not missing:
        return
    if state.offers:
        known = read_offers(Path(state.offers))
        add_offers(Path(state.offers), missing)
        for each in missing:
            if each not in known:
                note(f"the running stack offers {each} from now on, until it ends")
        return
    # The stack offers environments of the home folder itself, and no folder there can have such a name.
    given = (str(each) for each in offered if each.name != EVERY)
    asked = (str(each) for each in options.environments if each.name != EVERY)
    wanted = dict.fromkeys((*given, *asked))
    again = shlex.join(["gatewright", "up", *(word for prefix in wanted for word in ("--env", prefix))])
    raise MalformedError(
        f"the running stack does not offer the environment {missing[0]}, and takes no offers: "
        f"retry after `gatewright down` and `{again}`",
        code="invalid_input",
    )


def refuse_live(bus: BusAddress | None, home: Path, cassette: Path) -> None:
    """Raise MalformedError for a running system that may ask models, since ``cassette`` is to be replayed."""
    state = read(home) if bus is None else None
    if bus is None and (state is None or not state.shared or state.linger or state.cassette == str(cassette.absolute())):
        return
    here = "another system" if bus is not None else "the running stack"
    instead = "unset GATEWRIGHT_NATS_URL" if bus is not None else "retry after `gatewright down`"
    raise MalformedError(f"{here} does not play {cassette}, and could ask models: {instead}", code="invalid_input")


def ledger_readers(place: CommandContext) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """Return a function that connects to the system of ``place`` with an identity that reads the whole ledger.

    Connecting raises DeniedError (``identity_invalid``) for a publisher, UnavailableError (``no_stack``), BusError.
    """

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with attach_client(place.bus, place.home) as client:
            if not client.reads_ledger:
                words = "a publisher sees its own runs alone: give the seed of a watcher or an operator (GATEWRIGHT_NATS_SEED)"
                raise DeniedError(words, code="identity_invalid")
            yield client

    return connect
