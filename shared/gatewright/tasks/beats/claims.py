"""Claims every beat that a task is in progress, so that abandoned tasks become visible.

The gatekeeper sends the beat with the task: one setting for all roles; a task without it is never claimed. Claims are broadcast
and stored nowhere. A task that ends within its first beat causes no claim.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Literal

from gatewright.bus.port import BEAT_HEADER, Bus, Delivery, Message
from gatewright.bus.topology import Role, claim_subject
from gatewright.clock import Clock, timestamp
from gatewright.contracts import StatusClaim, codec
from gatewright.contracts.activity import LONGEST_BEAT
from gatewright.errors import GatewrightError
from gatewright.tasks.activity import Event, ReportActivity
from gatewright.tasks.protocol import TaskRef, carried_headers
from gatewright.telemetry.logs import Logger

Phase = Literal["working", "waiting"]


def beat_of(message: Message) -> int | None:
    """The seconds of the beat that came with a task; None where none did, or what is none."""
    words = message.headers.get(BEAT_HEADER, "")
    seconds = int(words) if words.isascii() and words.isdigit() and len(words) <= len(str(LONGEST_BEAT)) else 0
    return seconds if 1 <= seconds <= LONGEST_BEAT else None


class TaskClaims:
    """Claims for one delivery of a task.

    The handler sets ``phase``; ``count_step`` and ``heard`` record the progress of the work.
    """

    def __init__(self, bus: Bus, role: Role, delivery: Delivery, ref: TaskRef, *, clock: Clock, log: Logger) -> None:
        self.phase: Phase = "working"
        self._bus = bus
        self._role: Role = role
        self._delivery = delivery
        self._ref = ref
        self._clock = clock
        self._log = log
        self._beat = beat_of(delivery.message)
        self._headers = carried_headers(delivery.message)
        self._since = clock.now()
        self._moved = clock.monotonic()
        self._activity: Event | None = None
        self._number = 0

    def count_step(self) -> None:
        """A step of the work is done."""
        self._moved = self._clock.monotonic()

    def heard(self, report: ReportActivity) -> ReportActivity:
        """Wrap the given function so that claims include the kind of the last report, never its text."""

        def report_and_count(event: Event, text: str) -> None:
            if event != "usage":  # reported even if the agent is idle
                self._activity = event
                self.count_step()
            report(event, text)

        return report_and_count

    @contextlib.asynccontextmanager
    async def sent(self) -> AsyncIterator[None]:
        """While the body runs, claim every beat."""
        if self._beat is None:
            yield
            return
        claiming = asyncio.create_task(self._keep_claiming(self._beat))
        try:
            yield
        finally:
            claiming.cancel()
            await asyncio.gather(claiming, return_exceptions=True)

    async def _keep_claiming(self, beat: int) -> None:
        if self._is_late(beat):
            await self._claim(beat)
        while True:
            await asyncio.sleep(beat)
            await self._claim(beat)

    def _is_late(self, beat: int) -> bool:
        """Whether a claim of it may have been missed already: it waited for long, or another process had it before."""
        stored = self._delivery.message.stored_at
        return self._delivery.attempts > 1 or bool(stored and self._since.timestamp() - stored >= beat)

    async def _claim(self, beat: int) -> None:
        claim = StatusClaim(
            run_id=self._ref.run_id,
            task_id=self._ref.task_id,
            role=self._role,  # type: ignore[arg-type]  # a gatekeeper takes no tasks
            delivery=self._delivery.attempts,
            beat=self._number,
            beat_seconds=beat,
            since=timestamp(self._since),
            phase=self.phase,
            quiet_seconds=max(0, int(self._clock.monotonic() - self._moved)),
            activity=self._activity,
            process=self._bus.process or None,
            window=int(self._clock.now().timestamp()) // beat,
        )
        self._number += 1
        try:
            await self._bus.broadcast(claim_subject(self._role), codec.encode(claim), headers=self._headers)
        except GatewrightError as error:
            self._log.warning("claim_not_sent", code=error.reason, cause=error.message)
