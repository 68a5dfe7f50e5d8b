"""Repeated cancellation notices: name runs that ended before their work was done, so that roles still working on them stop.

A notice is a broadcast. A role that was disconnected when a run was aborted missed it, and so did a role that started later and
received the redelivered task. Every gatekeeper repeats the notices of all runs in the ledger, so any one of them suffices, even
if it started later. It decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field

from gatewright.bus.port import Bus
from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.clock import Clock
from gatewright.errors import BusError
from gatewright.pause import pause_unless
from gatewright.run.events import TaskDispatched
from gatewright.services.gatekeeper.projections.entries import LedgerEntry
from gatewright.tasks.protocol import cancel_notice

#: A run that ended less than ``RECENT`` seconds ago is named every ``OFTEN`` seconds, and until ``LASTING`` every ``SELDOM``.
RECENT = 10.0
OFTEN = 0.5
LASTING = 600.0
SELDOM = 5.0
#: Maximum number of runs per notice.
MOST = 1_000


@dataclass
class CancellationBroadcaster:
    """Runs to name: id -> end in monotonic seconds, oldest first. One per process."""

    _ended: dict[str, float] = field(default_factory=dict)

    def saw(self, entry: LedgerEntry, now: float, age: float = 0.0) -> None:
        """Apply a ledger entry that was stored ``age`` seconds ago."""
        if age > LASTING or entry.outcome in (None, "SUCCESS"):
            return
        if entry.number > 1 or entry.has(TaskDispatched.event_type):
            self._ended[entry.run_id] = now - max(0.0, age)

    def to_name(self, now: float, *, all_of_them: bool) -> tuple[str, ...]:
        """Return the runs that ended recently, or all runs that are still named."""
        for run_id, ended in tuple(self._ended.items()):
            if now - ended > LASTING:
                del self._ended[run_id]
        return tuple(run_id for run_id, ended in self._ended.items() if all_of_them or now - ended <= RECENT)

    async def keep(self, bus: Bus, clock: Clock, stop: asyncio.Event) -> None:
        """Repeat the notices until shutdown."""
        rounds = 0
        while not stop.is_set():
            names = self.to_name(clock.monotonic(), all_of_them=rounds % int(SELDOM / OFTEN) == 0)
            for first in range(0, len(names), MOST):
                with contextlib.suppress(BusError):  # the next notice repeats it
                    await bus.broadcast(CANCEL_SUBJECT, cancel_notice(*names[first : first + MOST]))
            rounds += 1
            await pause_unless(stop, OFTEN)
