"""Watchdog of a handler: extends the delivery, and ends the work when its time is over or on request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal

from gatewright.bus.port import Delivery
from gatewright.clock import Clock
from gatewright.contracts.vocabulary import Document
from gatewright.errors import GatewrightError
from gatewright.tasks.heartbeat import keep_alive
from gatewright.telemetry.logs import Logger

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
            await self._end(handling)
        return handling

    async def _end(self, handling: asyncio.Task[Document]) -> None:
        if handling.done():
            return
        handling.cancel()
        _done, pending = await asyncio.wait({handling}, timeout=self._patience)
        if pending:
            raise GatewrightError(f"a handler did not end within {self._patience:g} s of being cancelled", code="handler_stuck")
