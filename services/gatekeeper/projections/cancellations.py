"""Says again and again which runs have ended before their work was done, so that a role that still works for one of them stops.

A notice is a broadcast: a role that was cut off when a run was aborted has not heard it, and neither has one that was started
since, to which the task is delivered anew. Every gatekeeper repeats the notices of all runs, as the ledger tells them: any one
of them will do, and it need not have been there when the run ended. It decides nothing.
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
#: Runs that one notice names.
MOST = 1_000


@dataclass
class CancellationBroadcaster:
    """The runs to be named: id -> when they ended, oldest first, in monotonic seconds. One per process."""

    _ended: dict[str, float] = field(default_factory=dict)

    def saw(self, entry: LedgerEntry, now: float, age: float = 0.0) -> None:
        """Take note of an entry of the ledger that was stored ``age`` seconds ago."""
        if age > LASTING or entry.outcome in (None, "SUCCESS"):
            return
        if entry.number > 1 or entry.has(TaskDispatched.event_type):
            self._ended[entry.run_id] = now - max(0.0, age)

    def to_name(self, now: float, *, all_of_them: bool) -> tuple[str, ...]:
        """The runs that ended recently, or all that are still named at all."""
        for run_id, ended in tuple(self._ended.items()):
            if now - ended > LASTING:
                del self._ended[run_id]
        return tuple(run_id for run_id, ended in self._ended.items() if all_of_them or now - ended <= RECENT)

    async def keep(self, bus: Bus, clock: Clock, stop: asyncio.Event) -> None:
        """Repeat the notices until the process is told to leave."""
        rounds = 0
        while not stop.is_set():
            names = self.to_name(clock.monotonic(), all_of_them=rounds % int(SELDOM / OFTEN) == 0)
            for first in range(0, len(names), MOST):
                with contextlib.suppress(BusError):  # it is said again
                    await bus.broadcast(CANCEL_SUBJECT, cancel_notice(*names[first : first + MOST]))
            rounds += 1
            await pause_unless(stop, OFTEN)
