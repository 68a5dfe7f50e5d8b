"""Begins the fork server of a stack of one's own before the command line itself is imported: the stack waits for it longest.

Nothing is decided by that. Where a stack runs already, elsewhere or in the home folder, or where there is no home folder yet,
nothing is begun, and what is begun and not used is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from gatewright.app.cli.home import own_home
from gatewright.app.cli.settings import inherited_environment, is_automation, load
from gatewright.app.stack.fork_server import Ahead, open_fork_server
from gatewright.app.stack.state import read
from gatewright.errors import GatewrightError


@dataclass(frozen=True, slots=True)
class Begun:
    """What was begun, and the event loop that it belongs to."""

    runner: asyncio.Runner
    ahead: Ahead


def linger_minutes(asked: bool | None) -> float:
    """For how many idle minutes a stack stays that this run starts; 0 where it ends with the run.

    Unless a person has ``asked`` (--linger, --no-linger), it stays where a person sits at a terminal: nothing is left behind by
    scripts, by CI, or where another program reads the output. Raises ConfigurationError.
    """
    minutes = load().linger_minutes
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and not is_automation()
    return minutes if (terminal if asked is None else asked) else 0.0


def _flag(words: Sequence[str]) -> bool | None:
    """What the words of the command line say of it, before they are read as options."""
    if "--no-linger" in words or "--cassette" in words:
        return False
    return True if "--linger" in words else None


@contextlib.contextmanager
def begin_ahead() -> Iterator[Begun]:
    """``fork_server_ahead`` for what is not asynchronous yet."""
    with asyncio.Runner() as runner:
        begins = contextlib.AsyncExitStack()
        ahead = runner.run(begins.enter_async_context(fork_server_ahead()))
        try:
            yield Begun(runner, ahead)
        finally:
            runner.run(begins.aclose())


@contextlib.asynccontextmanager
async def fork_server_ahead() -> AsyncIterator[Ahead]:
    """What a supervisor may take. What goes wrong here is met again, and told, where the stack is started."""
    ahead = Ahead()
    with contextlib.suppress(GatewrightError, OSError):
        home = own_home()
        lingers = linger_minutes(_flag(sys.argv[1:])) > 0  # then a process of its own holds the stack
        if home is not None and home.is_dir() and read(home) is None and not lingers:
            ahead = Ahead(await open_fork_server(home, inherited_environment()))
    try:
        yield ahead
    finally:
        await ahead.close()
