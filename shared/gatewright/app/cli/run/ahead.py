"""Begins the fork server of a stack of one's own before the command line itself is imported: the stack waits for it longest.

Nothing is decided by that. Where a stack runs already, elsewhere or in the home folder, or where there is no home folder yet,
nothing is begun, and what is begun and not used is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from gatewright.app.cli.home import own_home
from gatewright.app.cli.settings import inherited_environment
from gatewright.app.stack.fork_server import Ahead, open_fork_server
from gatewright.app.stack.state import read
from gatewright.errors import GatewrightError


@dataclass(frozen=True, slots=True)
class Begun:
    """What was begun, and the event loop that it belongs to."""

    runner: asyncio.Runner
    ahead: Ahead


@contextlib.contextmanager
def begun() -> Iterator[Begun]:
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
        if home is not None and home.is_dir() and read(home) is None:
            ahead = Ahead(await open_fork_server(home, inherited_environment()))
    try:
        yield ahead
    finally:
        await ahead.close()
