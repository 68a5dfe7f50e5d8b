"""How tests wait for what has to come, in other tasks, threads and processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from gatewright import Client

#: Seconds that something may take which has to come, on however busy a machine. No test counts on its coming sooner.
PATIENCE = 300.0
#: Seconds between two looks.
_PAUSE = 0.02


async def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds. TimeoutError if it never does."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for gives no sign
            await asyncio.sleep(_PAUSE)


def wait_until(condition: Callable[[], bool]) -> bool:
    """Whether ``condition`` came to hold, for tests without an event loop."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(_PAUSE)
    return True


async def in_state(client: Client, run_id: str, state: str) -> None:
    """Wait until a run is in ``state``. TimeoutError if it never is."""
    async with asyncio.timeout(PATIENCE):
        while (await client.get(run_id)).state != state:  # noqa: ASYNC110 - it is in other processes
            await asyncio.sleep(_PAUSE)
