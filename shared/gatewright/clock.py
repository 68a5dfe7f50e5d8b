"""Time and identity, passed in wherever they are needed so that tests and replay can fix them."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """A source of the present moment."""

    def now(self) -> datetime:
        """The present moment, aware, in UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def timestamp(moment: datetime) -> str:
    """``moment`` in RFC 3339 with milliseconds and ``Z``, the only form written into documents."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id of 32 hexadecimal digits."""
    return uuid.uuid4().hex
