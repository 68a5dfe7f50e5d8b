"""Contents of command environments, known before commands start: inspected now, or as the last task left them.

Inspecting an environment takes as long as a small test. If an earlier task saw the same one, commands start with its record,
and the inspection runs in parallel. If it finds a difference, the commands are stopped and start again. So commands are judged
by the content before the first of them, as if that one had waited. This requires that they cannot write there: without a
sandbox they wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gatewright.environment_state import EnvironmentSnapshot, refuse_changed, see_environment
from gatewright.sandbox.environments import Shown, environments_of

#: Environments that are remembered, each some megabytes.
_MOST: Final = 4


async def at_once() -> None:
    """What was seen a moment ago is sure."""


@dataclass(frozen=True, slots=True)
class SeenEnvironment:
    """What commands find below their prefix, None for nothing of its own; ``confirmed`` returns when that is sure."""

    snapshot: EnvironmentSnapshot | None
    confirmed: Callable[[], Awaitable[object]] = at_once


class KnownEnvironments:
    """The environments of the last tasks of one process. ``confined``: no command can write to one."""

    def __init__(self, *, confined: bool) -> None:
        self._confined = confined
        self._known: dict[tuple[Path, ...], EnvironmentSnapshot] = {}

    async def during(self, shown: Shown, use: Callable[[SeenEnvironment], Coroutine[Any, Any, None]]) -> None:
        """Have ``use`` run commands that are shown ``shown``.

        1. what lies there is seen before the first command, or beside it where it was known;
        2. what was known is no longer so: ``use`` is cancelled, and called once more with what was seen;
        3. after the last command it is still the same.

        ``use`` keeps nothing for other tasks before ``confirmed`` has returned. Raises ConfigurationError, DeniedError
        (``environment_changed``), and what ``use`` raises.
        """
        places = environments_of(shown).watched
        known = self._known.pop(places, None)
        looking = asyncio.ensure_future(asyncio.to_thread(see_environment, shown))
        try:
            if known is None or not await _holds(known, looking, use):  # 1, 2
                await use(SeenEnvironment(await looking))
            seen = await looking
        finally:
            looking.cancel()
        await asyncio.to_thread(refuse_changed, seen)  # 3
        if seen is not None and self._confined:
            self._known[places] = seen
            for oldest in list(self._known)[:-_MOST]:
                del self._known[oldest]


async def _holds(
    known: EnvironmentSnapshot,
    looking: asyncio.Future[EnvironmentSnapshot | None],
    use: Callable[[SeenEnvironment], Coroutine[Any, Any, None]],
) -> bool:
    """Whether ``use`` was right to begin with ``known``; then it has ended. Raises what ``use`` and the look raise."""
    confirmed = asyncio.Event()
    using = asyncio.ensure_future(use(SeenEnvironment(known, confirmed.wait)))
    try:
        # Commands that are over first are not believed before the look is.
        if await asyncio.shield(looking) != known:
            return False
        confirmed.set()
        await using
        return True
    finally:
        using.cancel()
        await asyncio.wait((using,))
        with contextlib.suppress(asyncio.CancelledError):
            using.exception()  # looked at, or it would be reported as lost
