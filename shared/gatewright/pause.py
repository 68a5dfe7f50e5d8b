"""Pauses of loops: until a signal to stop ends them, and between the attempts of calls to servers outside."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 300.0
_LONGEST_RETRY_AFTER: Final = 3600.0


def retry_pause(failures: int, retry_after: float | None = None) -> float:
    """Return the seconds to wait after the last of ``failures`` failed calls: 2, 4, 8 and so on to 300.

    ``retry_after``: seconds that the server asked for (RFC 9110, section 10.2.3). Of up to an hour, the longer wait counts.
    """
    doubled = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(max(failures - 1, 0), 10))
    return max(doubled, min(retry_after or 0.0, _LONGEST_RETRY_AFTER))


def retry_after_seconds(header: str | None) -> float | None:
    """Return the seconds of a ``Retry-After``; None for a date, and without one."""
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e6 else None


async def pause_unless(stop: asyncio.Event, seconds: float) -> None:
    """Wait ``seconds``, or until ``stop`` is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
