"""Heartbeats for a delivery in progress, so that no other process receives it meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

from gatewright.bus.port import Delivery
from gatewright.errors import BusError
from gatewright.telemetry.logs import Logger

#: Signs of life within one ``ack_wait``: two of them may get lost.
SIGNS = 3


@contextlib.asynccontextmanager
async def keep_alive(delivery: Delivery, *, every: float, log: Logger, longest: float = math.inf) -> AsyncIterator[None]:
    """Send a heartbeat for ``delivery`` every ``every`` seconds while the body runs, for at most ``longest`` seconds."""
    beating = asyncio.create_task(_beat(delivery, every, log, longest))
    try:
        yield
    finally:
        beating.cancel()


async def _beat(delivery: Delivery, every: float, log: Logger, longest: float) -> None:
    left = longest
    while left >= every:
        await asyncio.sleep(every)
        left -= every
        try:
            async with asyncio.timeout(every):
                await delivery.in_progress()
        except (BusError, TimeoutError) as error:
            # The work goes on: at worst another process does it too, and one of two equal answers counts.
            log.warning("heartbeat_failed", cause=str(error))
