"""Time and identity, passed in wherever they are needed so that tests and replay can fix them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

#: Reads a clock.
Nanoseconds = Callable[[], int]
_NANO = 1_000_000_000


class Clock(Protocol):
    """A source of the present moment."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start; never decreases."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyClock:
    """The time of day for a service: close to the machine's clock, without jumps or steps back.

    Deadlines in the ledger are times of day, because several processes share them. When the machine's clock is changed, a
    clock that simply followed it would end work that has hours left, or wait for a day. This one runs up to ``rate`` faster
    or slower until it shows the same again; a restarted service shows the new time immediately. A machine's sleep is
    included.
    """

    def __init__(self, *, rate: float = 0.01, wall: Nanoseconds | None = None, ticks: Nanoseconds | None = None) -> None:
        self._rate = rate
        self._wall = wall or (lambda: time.time_ns())  # noqa: PLW0108 - looked up at every call, so that it can be replaced
        self._ticks = ticks or _since_boot
        self._shown = self._wall()
        self._tick = self._ticks()

    def now(self) -> datetime:
        tick = self._ticks()
        passed = max(0, tick - self._tick)
        most = int(passed * self._rate)
        self._shown += passed + min(most, max(-most, self._wall() - self._shown - passed))
        self._tick = tick
        return datetime.fromtimestamp(self._shown / _NANO, UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def _since_boot() -> int:
    # Only Linux has a clock that continues while the machine sleeps.
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def timestamp(moment: datetime) -> str:
    """``moment`` in RFC 3339 with milliseconds and ``Z``, the only form written into documents."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id of 32 hexadecimal digits."""
    return uuid.uuid4().hex
