"""Hears what roles claim of their tasks every beat, and shows of which runs nothing is heard. It decides nothing.

Each role is heard on a connection of its own: one that sends more than can be read takes away no other's claims. A claim counts
when the server let its role say it, the ledger has such a task of that role in hand, and it brings the token of the task.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import TASK_ROLES, claim_subject
from gatewright.clock import Clock
from gatewright.contracts import StatusClaim, codec
from gatewright.errors import BusError, DeniedError, MalformedError
from gatewright.pause import pause_unless
from gatewright.services.gatekeeper.dispatch.task_tokens import check_claimed
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Seconds between two looks at what is silent, at most.
LOOK = 5.0
#: Bytes of a claim; ids of tasks from outside are the longest part of one.
MOST_BYTES = 8192


@dataclass
class ClaimListener:
    """One per process."""

    bus: Bus
    silent: SilentRuns
    clock: Clock
    log: Logger
    metrics: Metrics
    #: Claims that were refused since the last look, and why the last of them was.
    refused: int = 0
    cause: str = ""
    _looked: float | None = None

    async def keep(self, stop: asyncio.Event) -> None:
        """Listen until the process is told to leave; a bus that is away is waited for."""
        pause = min(LOOK, self.silent.policy.seconds / 2)
        while not stop.is_set():
            try:
                async with contextlib.AsyncExitStack() as stack:
                    heard = [await self._hear(role, stack) for role in TASK_ROLES]
                    while not stop.is_set():
                        self.look(connected=all(bus.connected for bus in heard))
                        await pause_unless(stop, pause)
            except BusError as error:
                self.silent.deaf()
                self.log.warning("claims_not_heard", code=error.reason, cause=error.message)
                await pause_unless(stop, pause)

    async def _hear(self, role: str, stack: contextlib.AsyncExitStack) -> Bus:
        bus = await self.bus.another()
        stack.push_async_callback(bus.close)
        await bus.listen(claim_subject(role), self.hear)
        return bus

    def look(self, connected: bool) -> None:
        """Show how many runs are silent. A process that stood still itself, or was cut off, has heard nothing meanwhile."""
        now = self.clock.monotonic()
        stood = self._looked is not None and now - self._looked > self.silent.policy.seconds + LOOK
        self._looked = now
        if not connected:
            self.silent.deaf()
        elif stood or self.silent.since is None:
            self.silent.hears(now)
        self.metrics.runs_silent(self.silent.count(now))
        if self.refused:
            self.log.warning("claims_refused", number=self.refused, cause=self.cause)
            self.refused = 0

    async def hear(self, message: Message) -> None:
        """One claim. None is an error of this process: what is wrong with it is counted, and told once a look."""
        role = next((role for role in TASK_ROLES if message.subject == claim_subject(role)), None)
        if role is None:
            return
        try:
            claim = _read(message, role)
            if not self.silent.awaits(claim):
                # Ended meanwhile, not seen in the ledger yet, or never given out.
                self.metrics.status_claim(role, "unknown")
                return
            check_claimed(self.bus, claim.run_id, claim.task_id, message)
        except (MalformedError, DeniedError) as error:
            self.refused += 1
            self.cause = error.message
            self.metrics.status_claim(role, "refused")
        else:
            self.silent.claimed(claim, self.clock.monotonic())
            self.metrics.status_claim(role, "counted")


def _read(message: Message, role: str) -> StatusClaim:
    """Raises MalformedError."""
    if message.size > MOST_BYTES:
        raise MalformedError(f"a claim of {message.size} bytes; {MOST_BYTES} are allowed", code="message_too_large")
    claim = codec.decode(message.data, StatusClaim)
    if claim.role != role:
        raise MalformedError(f"a claim for the {claim.role} on the subject of the {role}", code="unexpected_document")
    return claim
