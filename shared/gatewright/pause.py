"""The pause of a loop that runs until its process receives a signal to stop, which ends the pause."""

from __future__ import annotations

import asyncio
from contextlib import suppress


async def pause_unless(stop: asyncio.Event, seconds: float) -> None:
    """Wait ``seconds``, or until ``stop`` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
