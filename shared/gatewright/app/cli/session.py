"""A connection to a system for one command: a bus that was named, the stack of the home folder, or one started for a run."""

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

#: Seconds between two looks at a home folder that another run uses.
_LOOK_AGAIN = 0.2
#: The same at one that starts for this run.
_LOOK_FOR_START = 0.02
#: Seconds between two looks whether the stack that a command uses is still there.
_LOOK_FOR_END = 1.0
#: Seconds that a server which should be there is waited for.
CONNECT_PATIENCE = 3.0
#: Seconds that a started stack is given until its gatekeeper answers; on a busy host a start takes its time.
STARTING_PATIENCE = 120.0


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
async def attach_client(bus: BusAddress | None, home: Path, *, lasting: bool = False) -> AsyncIterator[Client]:
    """A client of the system that runs now; with ``lasting`` only of one that does not end with a run.

    Raises UnavailableError (``no_stack``; ``stack_gone`` when it ends meanwhile), BusError when it cannot be reached.
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
    """What is done inside ends with UnavailableError (``stack_gone``) once the stack of ``home`` at ``url`` does.

    A stack that is started again has another address: the one that ended would be waited for without end. A stack that
    lingers does not end for being idle meanwhile.
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
    """Let ``limit`` run out once no stack of that address lives in ``home``."""
    gone = False
    while not gone:
        await asyncio.sleep(_LOOK_FOR_END)
        with contextlib.suppress(ConfigurationError):  # what cannot be read has not said that it ends
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
    """A session to do a run in: on the named bus, on the shared stack, else on a stack that lives as long as the run.

    With ``linger`` a stack is started that outlives the run by so many idle minutes (``gatewright.app.stack.lingering``), and
    ``announce`` is told so at the end.
    A home folder serves one stack at a time: while another run has one of its own, this one waits for it.
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
    """A stack for this run alone, which is started now; None where a shared one serves, which is in use from then on.

    And whether this run has started a shared one.
    """
    supervisor, home, told = Supervisor(options), options.home, False
    starting: LingeringStart | None = None
    while True:
        state = await asyncio.to_thread(read, home)
        if state is not None and state.shared and await asyncio.to_thread(_join_stack, options, opened):
            offer_missing(state, options, note)
            return None, starting is not None
        if state is None or (state.shared and await asyncio.to_thread(ended_for, home, options)):
            if linger:
                # One that is lost found a stack of another run in the home, which that run has ended since.
                if starting is None or starting.lost():
                    starting = LingeringStart.begin(options, linger)
            elif await _begin_stack(supervisor):
                return supervisor, False
        elif not told:
            who = f" (process {state.pid})" if state else ""
            note(f"waiting for another run in {home}{who}; `gatewright up` lets runs share one stack")
            told = True
        await asyncio.sleep(_LOOK_AGAIN if starting is None else _LOOK_FOR_START)


def _join_stack(options: StackOptions, opened: contextlib.AsyncExitStack) -> bool:
    """Whether the stack of the home fits, and is in use until ``opened`` is closed."""
    with contextlib.ExitStack() as held:
        held.enter_context(in_use(options.home))
        state = read(options.home)
        if state is None or not fits(state, options):
            return False
        opened.push(held.pop_all())
    return True


async def _begin_stack(supervisor: Supervisor) -> bool:
    """Whether it has been started; False while another process has the home folder."""
    try:
        await supervisor.begin()
    except UnavailableError as error:
        if error.reason != "home_in_use":
            raise
        return False
    return True


def offer_missing(state: StackState, options: StackOptions, note: Callable[[str], None]) -> None:
    """Offer the environments of this run to the running stack, until it ends: its owner has named them.

    Raises MalformedError, with what to start instead, for a stack whose roles read no offers, and where there are too many;
    ConfigurationError where the list is not private to the owner.
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
    # What lies in the home folder is offered unasked, and no folder of that name could be given.
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
    """MalformedError for a system that runs already and may ask models, where ``cassette`` is to be played."""
    state = read(home) if bus is None else None
    if bus is None and (state is None or not state.shared or state.linger or state.cassette == str(cassette.absolute())):
        return
    here = "another system" if bus is not None else "the running stack"
    instead = "unset GATEWRIGHT_NATS_URL" if bus is not None else "retry after `gatewright down`"
    raise MalformedError(f"{here} does not play {cassette}, and could ask models: {instead}", code="invalid_input")


def ledger_readers(place: CommandContext) -> Callable[[], AbstractAsyncContextManager[Client]]:
    """What connects to the system of ``place`` with an identity that reads the whole ledger.

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
