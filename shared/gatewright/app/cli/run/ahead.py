"""Begins the fork server of a stack of one's own before anything else is imported or looked at: the stack waits for it longest.

Nothing is decided by that. Where a stack runs already, elsewhere or in the home folder, or where there is no home folder yet,
nothing is begun, and what is begun and not used is ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from gatewright.app.cli.context import find_place
from gatewright.app.cli.settings import inherited_environment
from gatewright.app.stack.fork_server import Ahead
from gatewright.app.stack.state import read
from gatewright.app.stack.supervisor import StackOptions, open_fork_server
from gatewright.errors import GatewrightError


@contextlib.asynccontextmanager
async def fork_server_ahead() -> AsyncIterator[Ahead]:
    """What a supervisor may take. What goes wrong here is met again, and told, where the stack is started."""
    ahead = Ahead()
    with contextlib.suppress(GatewrightError, OSError):
        place = find_place()
        if place.bus is None and place.home.is_dir() and read(place.home) is None:
            options = StackOptions(home=place.home, base_environment=inherited_environment())
            ahead = Ahead(await open_fork_server(options))
    try:
        yield ahead
    finally:
        await ahead.close()
