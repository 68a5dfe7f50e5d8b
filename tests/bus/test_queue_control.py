"""Pausing a queue of the real server: nothing is handed out, nothing is lost, and it ends by itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_control import LONGEST_PAUSE, pause, queue_named, queues, resume, state_of
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import INTAKE_CONSUMER, Consumer, consumers, task_consumer, task_consumers
from gatewright.errors import MalformedError
from gatewright.tasks.priority_queue import ClassQueue
from tests.bus.backends import ANY_TIME, TASKS, give

QUEUES = task_consumers("worker")


async def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(bus: JetStreamBus) -> None:
    until = await pause(bus.connection, TASKS, 60)
    await give(bus)
    subscription = await bus.consume(TASKS)
    assert await subscription.take() is None
    assert await subscription.next(0.3) is None
    state = await state_of(bus.connection, TASKS)
    assert state is not None
    assert state.paused_until is not None
    assert abs((state.paused_until - until).total_seconds()) < 0.01
    assert (state.depth.waiting, state.depth.in_hand, state.depth.paused) == (1, 0, True)
    assert state.depth.oldest > 0.2
    assert await resume(bus.connection, TASKS)
    delivery = await subscription.next(3)
    assert delivery is not None
    assert delivery.attempts == 1
    assert not await resume(bus.connection, TASKS)


async def test_who_waits_before_the_queue_is_served_when_the_pause_ends(bus: JetStreamBus) -> None:
    queue = await ClassQueue.open(bus, QUEUES)
    waiting = asyncio.create_task(queue.next(ANY_TIME))
    await asyncio.sleep(0.1)
    await pause(bus.connection, TASKS, 60)
    await give(bus)
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await resume(bus.connection, TASKS)
    assert await waiting is not None  # the server looks again with its next heartbeat


async def test_a_pause_ends_by_itself(bus: JetStreamBus) -> None:
    await pause(bus.connection, TASKS, 1)
    await give(bus)
    subscription = await bus.consume(TASKS)
    begun = time.perf_counter()
    assert await subscription.next(ANY_TIME) is not None
    assert time.perf_counter() - begun > 0.5
    state = await state_of(bus.connection, TASKS)
    assert state is not None
    assert state.paused_until is None


async def test_what_is_in_hand_is_finished_and_other_classes_go_on(bus: JetStreamBus) -> None:
    await give(bus, b"in hand")
    subscription = await bus.consume(TASKS)
    held = await subscription.next(3)
    assert held is not None
    await pause(bus.connection, TASKS, 60)
    await give(bus, b"urgent", QUEUES[0].subject)
    other = await (await ClassQueue.open(bus, QUEUES)).next(3)
    assert other is not None
    assert other.message.data == b"urgent"
    await held.ack()
    # An acknowledgement has no answer: the server has taken note of it some moments later.
    while (state := await state_of(bus.connection, TASKS)) is not None and state.depth.in_hand:  # noqa: ASYNC110 - it is in the server
        await asyncio.sleep(0.01)
    assert state is not None


async def test_a_pause_survives_a_set_up(bus: JetStreamBus) -> None:
    await pause(bus.connection, TASKS, 60)
    await ensure_topology(bus)
    state = await state_of(bus.connection, TASKS)
    assert state is not None
    assert state.paused_until is not None


async def test_every_queue_of_the_system_is_listed_the_urgent_first(bus: JetStreamBus) -> None:
    found = await queues(bus.connection)
    assert {queue for queue in found if "-patient" not in queue.durable} == set(consumers())
    assert [queue.durable for queue in found if queue in QUEUES] == [queue.durable for queue in QUEUES]
    assert INTAKE_CONSUMER in found


async def test_a_queue_that_is_not_there_is_named(bus: JetStreamBus) -> None:
    absent = task_consumer("worker", "gpu")
    assert await state_of(bus.connection, absent) is None
    with pytest.raises(MalformedError) as refused:
        await pause(bus.connection, absent, 5)
    assert refused.value.reason == "queue_unknown"
    with pytest.raises(MalformedError):
        await resume(bus.connection, absent)


@pytest.mark.parametrize("seconds", [0, -1, LONGEST_PAUSE + 1, float("nan")])
async def test_a_pause_has_an_end(bus: JetStreamBus, seconds: float) -> None:
    with pytest.raises(MalformedError) as refused:
        await pause(bus.connection, TASKS, seconds)
    assert refused.value.reason == "pause_too_long"


@pytest.mark.parametrize(
    ("durable", "queue"),
    [
        ("worker-default-high", task_consumer("worker", "default", "high")),
        ("testrunner-big-pool-low", task_consumer("testrunner", "big-pool", "low")),
        ("worker-high", None),
        ("worker--high", None),
        ("gatekeeper-intake", None),
        ("worker-replay-abc", None),
    ],
)
def test_names_of_queues_are_read_back(durable: str, queue: Consumer | None) -> None:
    assert queue_named(durable) == queue
