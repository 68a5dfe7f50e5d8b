"""Listener for task claims, which roles publish with every heartbeat; detects silent runs. It decides nothing.

Each role has a connection of its own: a role that sends more than can be read displaces no other role's claims. A claim is
valid when the server let this role publish it, the ledger has such a task of this role in progress, and it carries the task's
token.
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

#: Maximum seconds between two checks for silent runs.
LOOK = 5.0
#: Maximum bytes of a claim; task ids from outside are its longest part.
MOST_BYTES = 8192


@dataclass
class ClaimListener:
    """Listener for claims, one per process."""

    bus: Bus
    silent: SilentRuns
    clock: Clock
    log: Logger
    metrics: Metrics
    #: Number of claims refused since the last check, and the reason of the last refusal.
    refused: int = 0
    cause: str = ""
    _looked: float | None = None

    async def keep(self, stop: asyncio.Event) -> None:
        """Listen until shutdown; an unreachable bus is retried."""
        pause = min(LOOK, self.silent.policy.seconds / 2)
        while not stop.is_set():
            try:
                async with contextlib.AsyncExitStack() as stack:
                    heard = [await self._hear_role(role, stack) for role in TASK_ROLES]
                    while not stop.is_set():
                        self.look(connected=all(bus.connected for bus in heard))
                        await pause_unless(stop, pause)
            except BusError as error:
                self.silent.deaf()
                self.log.warning("claims_not_heard", code=error.reason, cause=error.message)
                await pause_unless(stop, pause)

    async def _hear_role(self, role: str, stack: contextlib.AsyncExitStack) -> Bus:
        bus = await self.bus.another()
        stack.push_async_callback(bus.close)
        await bus.listen(claim_subject(role), self.hear)
        return bus

    def look(self, connected: bool) -> None:
        """Update the number of silent runs. A process that was suspended or disconnected restarts the measurement."""
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
        """Handle one claim. It never raises: faulty claims are counted, and logged once per check."""
        role = next((role for role in TASK_ROLES if message.subject == claim_subject(role)), None)
        if role is None:
            return
        try:
            claim = _read_claim(message, role)
            if not self.silent.awaits(claim):
                # Ended meanwhile and not read from the ledger yet, or never dispatched.
                self.metrics.status_claim(role, "unknown")
                return
            check_claimed(self.bus, claim.run_id, claim.task_id, message)
        except (MalformedError, DeniedError) as error:
            self.refused += 1
            self.cause = error.message
            self.metrics.status_claim(role, "refused")
        else:
            counted = self.silent.claimed(claim, self.clock.monotonic())
            self.metrics.status_claim(role, "counted" if counted else "unknown")


def _read_claim(message: Message, role: str) -> StatusClaim:
    """Decode a claim. Raises MalformedError."""
    if message.size > MOST_BYTES:
        raise MalformedError(f"a claim of {message.size} bytes; {MOST_BYTES} are allowed", code="message_too_large")
    claim = codec.decode(message.data, StatusClaim)
    if claim.role != role:
        raise MalformedError(f"a claim for the {claim.role} on the subject of the {role}", code="unexpected_document")
    return claim
