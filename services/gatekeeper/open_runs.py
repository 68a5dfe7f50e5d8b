"""Which runs are open, and when to look at one that nobody moves. Pure: it is told what the ledger shows, and the time.

Every gatekeeper watches all runs. One that its gatekeeper has left alone (killed, stopped, cut off) is finished by another. So
that not all of them do the same work at once, each waits a while of its own choice, and longer from look to look: a run that
stands still mostly waits for somebody's work. A run that moves again is left alone from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.ledger.events import BundleSealed, LocksWaiting

#: Seconds for which a run may stand still before the first look, and the longest pause between two looks.
QUIET = 10.0
LONGEST = 300.0
#: The pause for a run that waits for locks: whoever releases them wakes it, and this is for a wake that was lost.
WAITING = 30.0


class _Event(msgspec.Struct):
    event_type: str


class _Glance(msgspec.Struct):
    """All that is read of a transition here; whether it is genuine is looked at before anything is done."""

    number: int
    events: tuple[_Event, ...]


@dataclass(slots=True)
class _Watched:
    due: float
    looks: int = 0
    waiting: bool = False


class OpenRuns:
    """``jitter`` gives a number from 1 to 2 by which a pause is made longer; times are monotonic seconds."""

    def __init__(self, jitter: Callable[[], float], quiet: float = QUIET) -> None:
        self._jitter = jitter
        self._quiet = quiet
        self._runs: dict[str, _Watched] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def saw(self, message: Message, now: float) -> tuple[str, bool]:
        """Take note of a message of the ledger; its run, and whether the message says that the run is over and sealed."""
        run_id = message.subject.removeprefix(run_subject(""))
        try:
            glance = msgspec.json.decode(message.data, type=_Glance)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return run_id, False
        sealed = any(event.event_type == BundleSealed.event_type for event in glance.events)
        if sealed:
            self.closed(run_id)
        else:
            waiting = any(event.event_type == LocksWaiting.event_type for event in glance.events)
            quiet = WAITING if waiting else self._quiet
            self._runs[run_id] = _Watched(now + quiet * self._jitter(), waiting=waiting)
        return run_id, sealed

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
