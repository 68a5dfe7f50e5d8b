"""Which runs are open, and when to look at one that no process moves. Pure: it is told what the ledger shows, and the time.

Every gatekeeper watches all runs. One that its gatekeeper has left alone (killed, stopped, cut off) is finished by another. So
that not all of them do the same work at once, each waits a while of its own choice, and longer from look to look: a run that
stands still mostly waits for the work of a role. A run that moves again is left alone from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gatewright.run.events import ABOUT_BUNDLES, LocksWaiting
from gatewright.services.gatekeeper.projections.entries import LedgerEntry

#: Seconds for which a run may stand still before the first look, and the longest pause between two looks.
QUIET = 10.0
LONGEST = 300.0
#: The pause for a run that waits for locks: the gatekeeper that releases them wakes it, and this is for a wake that was lost.
WAITING = 30.0


@dataclass(slots=True)
class _Watched:
    due: float
    looks: int = 0
    waiting: bool = False


class StalledRuns:
    """``jitter`` gives a number from 1 to 2 by which a pause is made longer; times are monotonic seconds."""

    def __init__(self, jitter: Callable[[], float], quiet: float = QUIET) -> None:
        self._jitter = jitter
        self._quiet = quiet
        self._runs: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def saw(self, entry: LedgerEntry, now: float) -> bool:
        """Take note of an entry of the ledger; whether it says that its run is over and sealed."""
        sealed = any(map(entry.has, ABOUT_BUNDLES))
        if sealed:
            self.closed(entry.run_id)
        else:
            waiting = entry.has(LocksWaiting.event_type)
            quiet = WAITING if waiting else self._quiet
            self._runs[entry.run_id] = _Watched(now + quiet * self._jitter(), waiting=waiting)
        return sealed

    def due(self, now: float) -> tuple[str, ...]:
        """The runs to look at now, longest overdue first."""
        return tuple(
            sorted((run for run, watched in self._runs.items() if watched.due <= now), key=lambda r: self._runs[r].due)
        )

    def everything_is_due(self, now: float) -> None:
        """After a start: whatever is open may have been left by the process before."""
        for watched in self._runs.values():
            watched.due = now

    def looked(self, run_id: str, now: float) -> None:
        """It was looked at: the next look comes later, unless the run has moved or is over."""
        watched = self._runs.get(run_id)
        if watched is not None and watched.due <= now:
            watched.looks += 1
            pause = WAITING if watched.waiting else min(LONGEST, self._quiet * 2.0**watched.looks)
            watched.due = now + pause * self._jitter()

    def closed(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
