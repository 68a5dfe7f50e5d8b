"""How work queues look from outside, on a real server: what waits, how long, who asks, what is put aside."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.bus.jetstream.api import MISSING
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_depths import open_dead_letters, queue_depth
from gatewright.bus.topology import Consumer, dead_subject, task_consumer, task_subject
from gatewright.errors import BusError
from gatewright.tasks.dead_letters import DeadLetters
from tests.waiting import PATIENCE

QUEUE = task_consumer("worker")
SUBJECT = task_subject("worker")


async def put(bus: JetStreamBus, number: int, subject: str = SUBJECT, data: bytes = b"{}") -> None:
    await bus.publish(subject, data, schema="task_contract.v1", message_id=f"{subject}:{number}")


async def test_an_empty_queue_without_pulls_has_zero_depths(bus: JetStreamBus) -> None:
    depth = await queue_depth(bus.connection, QUEUE)
    assert (depth.queue, depth.waiting, depth.in_hand, depth.pulls, depth.paused, depth.oldest) == (QUEUE, 0, 0, 0, False, 0.0)


async def test_what_waits_and_what_is_in_hand_are_two_figures(bus: JetStreamBus) -> None:
    for number in range(3):
        await put(bus, number)
    subscription = await bus.consume(QUEUE)
    delivery = await subscription.next(5)
    assert delivery is not None
    await subscription.close()
    depth = await queue_depth(bus.connection, QUEUE)
    assert (depth.waiting, depth.in_hand) == (2, 1)
    await delivery.ack()
    await bus.connection.flush()
    depth = await queue_depth(bus.connection, QUEUE)
    assert (depth.waiting, depth.in_hand) == (2, 0)


async def test_the_age_is_that_of_the_oldest_waiting_message(bus: JetStreamBus) -> None:
    await put(bus, 1)
    await put(bus, 1, task_subject("worker", task_class="low"))
    await asyncio.sleep(0.6)
    await put(bus, 2)
    assert 0.6 <= (await queue_depth(bus.connection, QUEUE)).oldest < 5
    subscription = await bus.consume(QUEUE)
    delivery = await subscription.next(5)
    assert delivery is not None
    await subscription.close()
    depth = await queue_depth(bus.connection, QUEUE)
    assert (depth.waiting, depth.in_hand) == (1, 1)
    assert 0 < depth.oldest < 0.5
    assert (await queue_depth(bus.connection, task_consumer("worker", task_class="low"))).oldest >= 0.6


async def test_who_has_nothing_to_do_is_seen_to_ask(bus: JetStreamBus) -> None:
    subscription = await bus.consume(QUEUE)
    asking = asyncio.create_task(subscription.next(20))
    async with asyncio.timeout(PATIENCE):
        while (await queue_depth(bus.connection, QUEUE)).pulls != 1:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)
    await put(bus, 1)
    assert await asking is not None
    await subscription.close()
    assert (await queue_depth(bus.connection, QUEUE)).in_hand == 1


async def test_a_message_as_large_as_may_be_does_not_stop_the_look(bus: JetStreamBus) -> None:
    await put(bus, 1, data=b'{"x":"' + b"y" * 8_000_000 + b'"}')
    async with asyncio.timeout(PATIENCE):
        while (seen := await queue_depth(bus.connection, QUEUE)).waiting == 0:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)
    assert seen.waiting == 1


async def test_a_queue_that_does_not_exist_is_named_so(bus: JetStreamBus) -> None:
    with pytest.raises(BusError) as refused:
        await queue_depth(bus.connection, Consumer("TASKS", "worker-none-low", "gw.task.worker.none.low", "worker"))
    assert refused.value.reason in MISSING


async def test_dead_letters_wait_until_an_operator_has_decided_about_them(bus: JetStreamBus) -> None:
    assert await open_dead_letters(bus.connection) == 0
    for number in range(3):
        await put(bus, number, dead_subject("worker"))
    await put(bus, 9, dead_subject("gatekeeper"))
    assert await open_dead_letters(bus.connection) == 4
    letters = DeadLetters(bus)
    for letter in (await letters.all())[:3]:
        await letters.drop(letter.sequence, "seen to")
    assert await open_dead_letters(bus.connection) == 1
