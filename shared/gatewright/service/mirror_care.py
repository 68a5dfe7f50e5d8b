"""Maintenance of a process's mirrors, concurrently and at the lowest priority."""

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


async def look_after(mirrors: MirrorRoom, log: Logger) -> None:
    """Maintain the mirrors of the folder of ``mirrors``, for ever."""
    while True:
        await asyncio.sleep(PERIOD)
        try:
            await in_thread(mirrors.make)
            for path in await in_thread(mirrors_below, mirrors.root):
                await _tend(path, log, frozenset(mirrors.needed()))
        except GatewrightError as error:
            log.warning("mirrors_not_maintained", code=error.reason, cause=error.message)


async def _tend(path: Path, log: Logger, needed: Collection[str]) -> None:
    try:
        done = await in_thread(tend, path, MaintenanceThresholds(), needed)
    except GatewrightError as error:
        log.warning("mirror_not_maintained", mirror=path.name, code=error.reason, cause=error.message)
    else:
        if done != NOTHING:
            log.info("mirror_maintained", mirror=path.name, repacked=done.repacked, dropped=done.dropped)
