"""Conformance of both backends: what is there now, requests that nobody waits for any more, and the classes of a queue."""

from __future__ import annotations

import asyncio
import time

import pytest

from gatewright.bus.port import Bus, Delivery, Subscription
from gatewright.bus.topology import TASK_CLASSES, task_consumers
from gatewright.errors import BusError
from gatewright.tasks.priority_queue import ROUND, ClassQueue, search_order
from tests.bus.backends import ANY_TIME, PATIENT, PATIENT_CLASSES, TASKS, Connect, give

QUEUES = PATIENT_CLASSES
HIGH, NORMAL, LOW = (queue.subject for queue in QUEUES)


async def found(subscription: Subscription) -> Delivery:
    """Look until a message is there: a server has stored it before its consumer knows of it."""
    async with asyncio.timeout(ANY_TIME):
        while (delivery := await subscription.take()) is None:  # noqa: ASYNC110 - the server gives no sign
            await asyncio.sleep(0.01)
        return delivery


async def taken(queue: ClassQueue, seconds: float = ANY_TIME) -> Delivery:
    delivery = await queue.next(seconds)
    assert delivery is not None
    return delivery


async def drained(queue: ClassQueue) -> list[bytes]:
    """Everything that is there, in the order in which it was taken."""
    found = []
    while (delivery := await queue.next(0.2)) is not None:
        await delivery.ack()
        found.append(delivery.message.data)
    return found


async def test_what_is_there_is_taken_without_a_wait(connect: Connect) -> None:
    bus = await connect("worker")
    subscription = await bus.consume(TASKS)
    assert await subscription.take() is None
    await give(bus, b"one")
    delivery = await found(subscription)
    assert (delivery.message.data, delivery.attempts) == (b"one", 1)
    assert await subscription.take() is None


async def test_a_look_leaves_no_request_behind(connect: Connect) -> None:
    bus = await connect("worker")
    subscription, other = await bus.consume(TASKS), await bus.consume(TASKS)
    assert await subscription.take() is None
    await give(bus, b"one")
    assert (await found(other)).attempts == 1


async def test_messages_for_an_ended_wait_go_to_others_immediately(connect: Connect) -> None:
    bus = await connect("worker")
    subscription, other = await bus.consume(PATIENT), await bus.consume(PATIENT)
    assert await subscription.next(0.05) is None
    await give(bus, b"one", PATIENT.subject)
    delivery = await other.next(ANY_TIME)
    assert delivery is not None
    assert delivery.attempts <= 2


async def test_after_a_wait_that_is_over_the_subscription_serves_as_before(connect: Connect) -> None:
    bus = await connect("worker")
    subscription = await bus.consume(PATIENT)
    for number in range(3):
        assert await subscription.next(0.05) is None
        await give(bus, b"%d" % number, PATIENT.subject)
        delivery = await subscription.next(ANY_TIME)
        assert delivery is not None
        assert delivery.message.data == b"%d" % number
        assert delivery.attempts <= 2
        await delivery.ack()


async def test_a_closed_subscription_keeps_nothing_that_was_on_its_way(connect: Connect) -> None:
    """What is published while a subscription closes is with another one long before ack_wait is over."""
    gatekeeper = await connect("gatekeeper")
    staying = await (await connect("worker-2")).consume(PATIENT)
    for number in range(20):
        leaving = await (await connect(f"leaving-{number}")).consume(PATIENT)
        waiting = asyncio.create_task(leaving.next(5))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(
            waiting, leaving.close(), give(gatekeeper, b"%d" % number, PATIENT.subject), return_exceptions=True
        )
        delivery = await staying.next(ANY_TIME)
        assert delivery is not None
        assert delivery.message.data == b"%d" % number
        await delivery.ack()


async def test_a_returned_task_is_never_lost_nor_exhausted(connect: Connect) -> None:
    """Twelve processes take one task each and are busy; the requests that they left open swallow nothing."""
    gatekeeper = await connect("gatekeeper")
    crew = [await ClassQueue.open(await connect(f"worker-{number}"), QUEUES) for number in range(12)]
    free = await ClassQueue.open(await connect("worker-free"), QUEUES)
    waiting = [asyncio.create_task(taken(queue)) for queue in crew]
    await asyncio.sleep(0.1)
    await asyncio.gather(*(give(gatekeeper, b"%d" % number, NORMAL) for number in range(12)))
    held = await asyncio.gather(*waiting)
    last = asyncio.create_task(taken(free))
    await give(gatekeeper, b"urgent", HIGH)
    urgent = await last
    assert urgent.message.data == b"urgent"
    assert urgent.attempts < QUEUES[0].max_deliver
    assert {delivery.attempts for delivery in held} <= {1, 2, 3}


async def test_high_comes_before_normal_and_normal_before_low(connect: Connect) -> None:
    bus = await connect("worker")
    for subject in (LOW, NORMAL, HIGH):
        for number in range(2):
            await give(bus, f"{subject} {number}".encode(), subject)
    queue = await ClassQueue.open(bus, QUEUES)
    assert await drained(queue) == [f"{subject} {number}".encode() for subject in (HIGH, NORMAL, LOW) for number in range(2)]


async def test_a_class_that_others_always_outdo_is_not_starved(connect: Connect) -> None:
    bus = await connect("worker")
    for number in range(3 * ROUND):
        await give(bus, b"high %d" % number, HIGH)
    for subject in (LOW, NORMAL):
        await give(bus, f"waits in {subject}".encode(), subject)
    queue = await ClassQueue.open(bus, QUEUES)
    first = [(await taken(queue)).message.data for _ in range(ROUND)]
    assert f"waits in {NORMAL}".encode() in first
    assert f"waits in {LOW}".encode() in first
    assert sum(data.startswith(b"high") for data in first) == ROUND - 2


@pytest.mark.parametrize("subject", [HIGH, NORMAL, LOW])
async def test_a_process_that_waits_gets_a_task_of_any_class(connect: Connect, subject: str) -> None:
    gatekeeper, worker = await connect("gatekeeper"), await connect("worker")
    queue = await ClassQueue.open(worker, QUEUES)
    waiting = asyncio.create_task(taken(queue))
    await asyncio.sleep(0.1)
    await give(gatekeeper, b"task", subject)
    assert (await waiting).attempts == 1


async def test_a_busy_process_holds_back_no_task_of_another_class(connect: Connect) -> None:
    gatekeeper = await connect("gatekeeper")
    busy = await ClassQueue.open(await connect("worker-1"), QUEUES)
    idle = await ClassQueue.open(await connect("worker-2"), QUEUES)
    assert await busy.next(0.1) is None
    await give(gatekeeper, b"long", NORMAL)
    held = await taken(busy)
    for subject in (LOW, HIGH, NORMAL, LOW):
        await give(gatekeeper, f"short {subject}".encode() + str(time.perf_counter()).encode(), subject)
        delivery = await taken(idle)
        assert delivery.attempts <= 2  # the busy one may have been offered it, and given it back
        await delivery.ack()
    await held.ack()


async def test_two_simultaneous_messages_go_to_one_process_each(connect: Connect) -> None:
    """Both are done, each by one process, within a moment and not after ack_wait."""
    gatekeeper = await connect("gatekeeper")
    queues = [await ClassQueue.open(await connect(f"worker-{number}"), QUEUES) for number in range(2)]
    for round_number in range(10):
        waiting = [asyncio.create_task(taken(queue)) for queue in queues]
        await asyncio.sleep(0.05)
        await asyncio.gather(*(give(gatekeeper, b"%d" % round_number, subject) for subject in (LOW, HIGH)))
        deliveries = await asyncio.gather(*waiting)
        assert {delivery.message.subject for delivery in deliveries} == {LOW, HIGH}
        assert max(delivery.attempts for delivery in deliveries) <= 3
        for delivery in deliveries:
            await delivery.ack()


async def test_a_wait_that_is_broken_off_loses_nothing(connect: Connect) -> None:
    gatekeeper, leaving = await connect("gatekeeper"), await connect("worker-1")
    for number in range(5):  # the last delivery of six is for who stays
        queue = await ClassQueue.open(leaving, QUEUES)
        waiting = asyncio.create_task(queue.next(5))
        await asyncio.sleep(0.004 * number)
        await give(gatekeeper, b"%d" % number, QUEUES[number % 3].subject)
        waiting.cancel()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        if outcome is not None and not isinstance(outcome, BaseException):
            await outcome.nak()  # it was here before the wait was broken off
        await queue.close()
    staying = await ClassQueue.open(await connect("worker-2"), QUEUES)
    found = {(await taken(staying)).message.data for _ in range(5)}
    assert found == {b"%d" % number for number in range(5)}


async def test_a_class_that_was_not_set_up_is_an_error(connect: Connect) -> None:
    bus: Bus = await connect("worker")
    with pytest.raises(BusError):
        await ClassQueue.open(bus, task_consumers("worker", "gpu"))


def test_every_class_has_its_turn_and_the_rest_is_in_order() -> None:
    orders = [search_order(taken, len(TASK_CLASSES)) for taken in range(ROUND)]
    assert orders.count((0, 1, 2)) == ROUND - 2
    assert orders.count((1, 0, 2)) == 1
    assert orders.count((2, 0, 1)) == 1
    assert orders[0] == (0, 1, 2)
    assert search_order(5, 1) == (0,)
