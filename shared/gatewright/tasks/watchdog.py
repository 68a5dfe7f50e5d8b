"""Watchdog of a handler: heartbeats extend the delivery, and the work ends when its time is over or on request."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Literal

from gatewright.bus.port import Delivery
from gatewright.clock import Clock
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, GatewrightError
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


#: Why work was ended from outside: its run was aborted; it made no progress; the process leaves.
Interruption = Literal["cancelled", "timed_out", "released"]


class TaskWatch:
    """One piece of work.

    ``limit``: seconds without progress before it is ended; ``beat``: seconds between heartbeats; ``patience``: seconds for the
    work to end after cancellation.
    """

    def __init__(self, delivery: Delivery, *, limit: float, beat: float, patience: float, clock: Clock, log: Logger) -> None:
        self.interruption: Interruption | None = None
        self._delivery = delivery
        self._limit = limit
        self._beat = beat
        self._patience = patience
        self._clock = clock
        self._log = log
        self._deadline = clock.monotonic() + limit
        self._woken = asyncio.Event()

    def progress(self) -> None:
        """A step is done; the time limit starts anew."""
        self._deadline = self._clock.monotonic() + self._limit

    def interrupt(self, why: Interruption) -> None:
        """End the work; the first reason given stays."""
        if self.interruption is None:
            self.interruption = why
            self._woken.set()

    async def watch(self, work: Coroutine[Any, Any, Document]) -> asyncio.Task[Document]:
        """Run ``work`` until it ends or is ended; the task that is returned is done.

        Raises GatewrightError (code ``handler_stuck``) when it does not end: then it is unknown what it still does.
        """
        handling = asyncio.create_task(work)
        woken = asyncio.create_task(self._woken.wait())
        try:
            async with keep_alive(self._delivery, every=self._beat, log=self._log):
                while self.interruption is None and not handling.done():
                    left = max(0.0, self._deadline - self._clock.monotonic())
                    await asyncio.wait({handling, woken}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                    if not handling.done() and self._clock.monotonic() >= self._deadline:
                        self.interrupt("timed_out")
        finally:
            woken.cancel()
            await self._end_task(handling)
        return handling

    async def _end_task(self, handling: asyncio.Task[Document]) -> None:
        if handling.done():
            return
        handling.cancel()
        _done, pending = await asyncio.wait({handling}, timeout=self._patience)
        if pending:
            raise GatewrightError(f"a handler did not end within {self._patience:g} s of being cancelled", code="handler_stuck")
