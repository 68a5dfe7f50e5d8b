"""Looks after the mirrors of a process, beside its work and at the lowest priority."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from gatewright.errors import GatewrightError
from gatewright.git.maintenance import NOTHING, MaintenanceThresholds, mirrors_below, tend
from gatewright.git.mirror_room import MirrorRoom
from gatewright.git.process import in_thread
from gatewright.telemetry.logs import Logger

#: Seconds between two looks.
PERIOD = 60.0


async def look_after(room: MirrorRoom, log: Logger) -> None:
    """Look after the mirrors of ``room``, for ever."""
    while True:
        await asyncio.sleep(PERIOD)
        try:
            await in_thread(room.make)
            for path in await in_thread(mirrors_below, room.root):
                await _tend(path, log, frozenset(room.needed()))
        except GatewrightError as error:
            log.warning("mirrors_not_tended", code=error.reason, cause=error.message)


async def _tend(path: Path, log: Logger, needed: Collection[str]) -> None:
    try:
        done = await in_thread(tend, path, MaintenanceThresholds(), needed)
    except GatewrightError as error:
        log.warning("mirror_not_tended", mirror=path.name, code=error.reason, cause=error.message)
    else:
        if done != NOTHING:
            log.info("mirror_tended", mirror=path.name, repacked=done.repacked, dropped=done.dropped)
