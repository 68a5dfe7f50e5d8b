"""The pause of a loop: as long as it is to be, or until the process is stopped."""

from __future__ import annotations

import asyncio

from gatewright.pause import pause_unless
from tests.waiting import PATIENCE


async def test_a_pause_ends_when_the_process_is_asked_to_leave() -> None:
    stop = asyncio.Event()
    pausing = asyncio.create_task(pause_unless(stop, 3600))
    await asyncio.sleep(0)
    assert not pausing.done()
    stop.set()
    await asyncio.wait_for(pausing, PATIENCE)


async def test_a_pause_is_over_when_its_time_is_and_nothing_is_raised() -> None:
    stop = asyncio.Event()
    await pause_unless(stop, 0.001)
    assert not stop.is_set()
