"""Open runs and when to check each for a stall. Pure: ledger entries and times are passed in.

Every gatekeeper watches all runs. If a run's gatekeeper is gone (killed, stopped, disconnected), another one finishes the run.
Each waits for a random delay, so that not all do the same work, and longer from check to check: a run that stands still mostly
waits for a role. A moving run starts again with the first delay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gatewright.run.events import ABOUT_BUNDLES, LocksWaiting
from gatewright.services.gatekeeper.projections.entries import LedgerEntry

#: Seconds without progress before the first check, and the longest pause between two checks.
QUIET = 10.0
LONGEST = 300.0
#: Pause for a run that waits for locks. The gatekeeper that releases them continues it; this check covers a lost notification.
WAITING = 30.0


@dataclass(slots=True)
class _Watched:
    due: float
    looks: int = 0
    waiting: bool = False


class StalledRuns:
    """``jitter`` returns a factor from 1 to 2 that lengthens a pause; times are monotonic seconds."""

    def __init__(self, jitter: Callable[[], float], quiet: float = QUIET) -> None:
        self._jitter = jitter
        self._quiet = quiet
        self._runs: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def saw(self, entry: LedgerEntry, now: float) -> bool:
        """Apply a ledger entry. Return whether it seals its run."""
        sealed = any(map(entry.has, ABOUT_BUNDLES))
        if sealed:
            self.closed(entry.run_id)
        else:
            waiting = entry.has(LocksWaiting.event_type)
            quiet = WAITING if waiting else self._quiet
            self._runs[entry.run_id] = _Watched(now + quiet * self._jitter(), waiting=waiting)
        return sealed

    def due(self, now: float) -> tuple[str, ...]:
        """Return the runs to check now, longest overdue first."""
        return tuple(
            sorted((run for run, watched in self._runs.items() if watched.due <= now), key=lambda r: self._runs[r].due)
        )

    def everything_is_due(self, now: float) -> None:
        """Make every open run due after a start: an earlier process may have left it incomplete."""
        for watched in self._runs.values():
            watched.due = now

    def looked(self, run_id: str, now: float) -> None:
        """Record a check: the next one comes later, unless the run moves or ends."""
        watched = self._runs.get(run_id)
        if watched is not None and watched.due <= now:
            watched.looks += 1
            pause = WAITING if watched.waiting else min(LONGEST, self._quiet * 2.0**watched.looks)
            watched.due = now + pause * self._jitter()

    def closed(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
