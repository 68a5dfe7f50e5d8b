"""Publishes an agent's activity to observers while it works. Reports that cannot be sent at once are dropped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from gatewright.bus.port import Bus
from gatewright.bus.topology import Role, live_subject
from gatewright.contracts import AgentActivity, codec
from gatewright.contracts.activity import ActivityKind
from gatewright.errors import GatewrightError
from gatewright.tasks.protocol import TaskRef

Event = ActivityKind
ReportActivity = Callable[[Event, str], None]
_WAITING: Final = 200
_CHARACTERS: Final = 2000


def ignore_activity(event: Event, text: str) -> None:
    """For tasks that are not looked on."""


class LiveActivity:
    """Of one delivery of a task."""

    def __init__(self, bus: Bus, role: Role, ref: TaskRef) -> None:
        self._bus = bus
        self._subject = live_subject(role)
        self._ref = ref
        self._waiting: asyncio.Queue[AgentActivity] = asyncio.Queue(_WAITING)

    def report(self, event: Event, text: str) -> None:
        """Queue a report if there is space."""
        activity = AgentActivity(run_id=self._ref.run_id, task_id=self._ref.task_id, event=event, text=text[:_CHARACTERS])
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(activity)

    @contextlib.asynccontextmanager
    async def sent(self) -> AsyncIterator[None]:
        """Send queued reports while the body runs."""
        sending = asyncio.create_task(self._send())
        try:
            yield
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send(self) -> None:
        while True:
            activity = await self._waiting.get()
            with contextlib.suppress(GatewrightError):
                await self._bus.broadcast(self._subject, codec.encode(activity))
