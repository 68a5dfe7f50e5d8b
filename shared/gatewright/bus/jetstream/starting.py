"""Repetition of what a process or a set-up command needs of the bus when it starts.

A server, or the host of either side, may be too busy to answer in time. That is no reason to end. The request is repeated with
growing pauses, and each failed attempt is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.errors import BusError

log = logging.getLogger(__name__)

#: Seconds for which a start keeps retrying.
START_SECONDS: Final = 300.0
#: Seconds of the first pause, which doubles after each attempt, and of the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
#: Reasons of errors that pass when the server or this host has time again.
PASSING: Final = frozenset({NO_ANSWER, NO_RESPONDERS, BusError.code})

T = TypeVar("T")


async def repeat_until_answered(
    attempt: Callable[[], Awaitable[T]],
    *,
    seconds: float = START_SECONDS,
    useless: Callable[[], bool] = lambda: False,
    passing: frozenset[str] = PASSING,
) -> T:
    """Repeat ``attempt``, which must be repeatable, until the bus answers; return its result.

    Args:
        seconds: how long to keep trying.
        useless: whether no further attempt can succeed, for example after the connection is closed for good.
        passing: reasons that may pass with time.

    Raises:
        GatewrightError: from ``attempt``; immediately if its reason is not in ``passing``.
        BusError: ``seconds`` passed without an answer.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + seconds, _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except BusError as error:
            if error.reason not in passing or useless() or loop.time() + pause > deadline:
                raise
            log.warning("%s; retry in %.1f s", error.message, pause)
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, 2 * pause)
