"""The in-memory bus under a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import task_consumer
from tests.bus.backends import TASKS, give
from tests.waiting import PATIENCE


class HandClock:
    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic(self) -> float:
        return self._seconds

    def move(self, seconds: float) -> None:
        self._seconds += seconds


async def make_bus() -> tuple[HandClock, MemoryBus]:
    clock = HandClock()
    bus = MemoryBus(MemoryServer(clock))
    await ensure_topology(bus)
    return clock, bus


async def test_redelivery_uses_the_injected_clock() -> None:
    clock, bus = await make_bus()
    await give(bus)
    subscription = await bus.consume(TASKS)
    assert await subscription.next(0) is not None
    clock.move(TASKS.ack_wait - 0.001)
    assert await subscription.next(0) is None
    clock.move(0.002)
    again = await subscription.next(0)
    assert again is not None
    assert again.attempts == 2
    await bus.close()


async def test_a_waiting_consumer_looks_again_when_it_is_woken() -> None:
    clock, bus = await make_bus()
    await give(bus)
    subscription = await bus.consume(TASKS)
    assert await subscription.next(0) is not None
    waiting = asyncio.create_task(subscription.next(60))
    await asyncio.sleep(0)
    clock.move(TASKS.ack_wait)
    bus.server.wake()
    assert await asyncio.wait_for(waiting, PATIENCE) is not None
    await bus.close()


async def test_the_dedupe_window_uses_the_injected_clock() -> None:
    clock, bus = await make_bus()
    first = await bus.publish("gw.run.r", b"1", schema="s", message_id="m")
    clock.move(119.9)
    assert (await bus.publish("gw.run.r", b"1", schema="s", message_id="m")).duplicate
    clock.move(0.2)
    again = await bus.publish("gw.run.r", b"1", schema="s", message_id="m")
    assert (again.duplicate, again.sequence) == (False, first.sequence + 1)
    await bus.close()


async def test_a_task_settled_before_redelivery_is_not_delivered() -> None:
    clock, bus = await make_bus()
    await give(bus)
    subscription = await bus.consume(TASKS)
    delivery = await subscription.next(0)
    assert delivery is not None
    clock.move(TASKS.ack_wait + 1)
    await delivery.ack()
    assert await subscription.next(0) is None
    await bus.close()


async def test_max_ack_pending_bounds_what_is_handed_out() -> None:
    _, bus = await make_bus()
    narrow = task_consumer("worker")
    bus.server.ensure([], [type(narrow)(narrow.stream, narrow.durable, narrow.subject, narrow.owner, max_ack_pending=2)])
    for number in range(3):
        await give(bus, b"%d" % number)
    subscription = await bus.consume(narrow)
    first, second, third = [await subscription.next(0) for _ in range(3)]
    assert first is not None
    assert second is not None
    assert third is None
    await first.ack()
    assert await subscription.next(0) is not None
    await bus.close()
