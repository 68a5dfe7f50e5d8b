"""Early start of the fork server for a new stack, before the command line is imported: the stack waits longest for it.

This decides nothing. The fork server is not started if a stack runs already, here or elsewhere, or if there is no home folder
yet. If it is not used, it is stopped.
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
    """The early start, and its event loop."""

    runner: asyncio.Runner
    ahead: Ahead


def linger_minutes(asked: bool | None) -> float:
    """Return the idle minutes until a stack that this run starts ends; 0 if it ends with the run.

    By default a stack stays only if a person sits at a terminal. Scripts, CI and pipes leave no stack behind. ``asked`` is the
    explicit choice (--linger, --no-linger). Raises ConfigurationError.
    """
    minutes = load().linger_minutes
    terminal = sys.stdout.isatty() and sys.stderr.isatty() and not is_automation()
    return minutes if (terminal if asked is None else asked) else 0.0


def _flag(words: Sequence[str]) -> bool | None:
    """Return the choice of --linger from the raw arguments, before they are parsed; None without one."""
    if "--no-linger" in words or "--cassette" in words:
        return False
    return True if "--linger" in words else None


@contextlib.contextmanager
def begin_ahead() -> Iterator[Begun]:
    """Run ``fork_server_ahead`` outside of an event loop."""
    with asyncio.Runner() as runner:
        begins = contextlib.AsyncExitStack()
        ahead = runner.run(begins.enter_async_context(fork_server_ahead()))
        try:
            yield Begun(runner, ahead)
        finally:
            runner.run(begins.aclose())


@contextlib.asynccontextmanager
async def fork_server_ahead() -> AsyncIterator[Ahead]:
    """Start a fork server for a supervisor. Errors are ignored here, and reported when the stack starts."""
    ahead = Ahead()
    with contextlib.suppress(GatewrightError, OSError):
        home = own_home()
        lingers = linger_minutes(_flag(sys.argv[1:])) > 0  # then a separate process runs the stack
        if home is not None and home.is_dir() and read(home) is None and not lingers:
            ahead = Ahead(await open_fork_server(home, inherited_environment()))
    try:
        yield ahead
    finally:
        await ahead.close()
