"""Conformance of both backends: work queues, redelivery, settling."""

from __future__ import annotations

import asyncio
import time

import pytest

from gatewright.bus.port import Delivery, Subscription
from gatewright.bus.topology import Consumer, task_consumer
from gatewright.errors import BusError
from tests.bus.backends import ANY_TIME, PATIENT, TASKS, Backend, Connect, give

SUBJECT = "gw.task.worker.quick"
#: Long enough for a process that gets little of the processor, and waited for in few tests.
ACK_WAIT = 1.0
QUICK = Consumer("TASKS", "worker-quick", SUBJECT, "worker", ack_wait=ACK_WAIT, max_deliver=-1)
THRICE = Consumer("TASKS", "worker-thrice", "gw.task.worker.thrice", "worker", ack_wait=0.1, max_deliver=3)


@pytest.fixture(autouse=True)
async def set_up_queues(backend: Backend) -> None:
    await backend.ensure([QUICK, THRICE])


async def take(subscription: Subscription, seconds: float = ANY_TIME) -> Delivery:
    delivery = await subscription.next(seconds)
    assert delivery is not None
    return delivery


async def test_a_task_that_was_there_before_is_delivered(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"one", TASKS.subject)
    delivery = await take(await bus.consume(TASKS))
    assert (delivery.message.subject, delivery.message.data, delivery.message.sequence) == (TASKS.subject, b"one", 1)
    assert delivery.message.headers["Gw-Schema"] == "task_contract.v1"
    assert delivery.attempts == 1


async def test_a_waiting_consumer_gets_a_task(connect: Connect) -> None:
    gatekeeper, worker = await connect("gatekeeper"), await connect("worker")
    waiting = asyncio.create_task(take(await worker.consume(TASKS)))
    await asyncio.sleep(0.1)
    await give(gatekeeper, b"task", TASKS.subject)
    assert (await waiting).attempts == 1


async def test_nothing_comes_when_there_is_nothing(connect: Connect) -> None:
    subscription = await (await connect("worker")).consume(QUICK)
    start = time.perf_counter()
    assert await subscription.next(0.2) is None
    assert time.perf_counter() - start > 0.15


async def test_a_task_that_comes_between_two_polls_is_not_lost(connect: Connect) -> None:
    bus = await connect("worker")
    subscription = await bus.consume(TASKS)
    assert await subscription.next(0.05) is None
    await give(bus, b"task", TASKS.subject)
    await asyncio.sleep(0.1)
    assert (await take(subscription)).attempts <= 2


async def test_an_acknowledged_task_does_not_come_again(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    await (await take(subscription)).ack()
    assert await subscription.next(2 * ACK_WAIT) is None


async def test_an_unsettled_task_comes_again_after_ack_wait(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    first = await take(subscription)
    start = time.perf_counter()
    second = await take(subscription)
    assert time.perf_counter() - start > 0.8 * ACK_WAIT
    assert second.message == first.message
    assert (first.attempts, second.attempts) == (1, 2)


async def test_a_sign_of_life_prolongs_ack_wait(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription, other = await bus.consume(QUICK), await bus.consume(QUICK)
    delivery = await take(subscription)
    for _ in range(3):
        assert await other.next(0.6 * ACK_WAIT) is None
        await delivery.in_progress()
    await delivery.ack()
    assert await other.next(1.5 * ACK_WAIT) is None


async def test_without_more_signs_of_life_the_task_goes_to_another(connect: Connect) -> None:
    bus, survivor = await connect("worker"), await connect("worker")
    await give(bus, b"task", SUBJECT)
    delivery = await take(await bus.consume(QUICK))
    await delivery.in_progress()
    assert (await take(await survivor.consume(QUICK))).attempts == 2


async def test_a_task_given_back_comes_again_at_once(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", PATIENT.subject)
    subscription = await bus.consume(PATIENT)
    delivery = await take(subscription)
    await delivery.nak()
    assert (await take(subscription)).attempts == 2


async def test_a_task_given_back_with_a_delay_comes_again_after_it(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", PATIENT.subject)
    subscription = await bus.consume(PATIENT)
    delivery = await take(subscription)
    start = time.perf_counter()
    await delivery.nak(0.6)
    assert (await take(subscription)).attempts == 2
    assert time.perf_counter() - start > 0.55


async def test_a_terminated_task_does_not_come_again(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    await (await take(subscription)).term()
    assert await subscription.next(2 * ACK_WAIT) is None


async def test_a_task_is_delivered_at_most_max_deliver_times(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, subject=THRICE.subject)
    subscription = await bus.consume(THRICE)
    assert [(await take(subscription)).attempts for _ in range(3)] == [1, 2, 3]
    assert await subscription.next(0.6) is None


async def test_the_first_settlement_counts(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    delivery = await take(subscription)
    await delivery.ack()
    await delivery.nak()
    await delivery.in_progress()
    await delivery.term()
    assert await subscription.next(1.5 * ACK_WAIT) is None


async def test_a_late_acknowledgement_still_counts(connect: Connect) -> None:
    bus = await connect("worker")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    slow = await take(subscription)
    await take(subscription)
    await slow.ack()
    assert await subscription.next(1.5 * ACK_WAIT) is None


async def test_two_processes_share_a_queue_and_each_task_goes_to_one(connect: Connect) -> None:
    gatekeeper = await connect("gatekeeper")
    subscriptions = [await (await connect(f"worker-{number}")).consume(TASKS) for number in range(2)]
    for number in range(20):
        await give(gatekeeper, b"%d" % number, TASKS.subject)
    seen: list[list[bytes]] = [[], []]

    async def work(who: int) -> None:
        while (delivery := await subscriptions[who].next(0.3)) is not None:
            seen[who].append(delivery.message.data)
            await asyncio.sleep(0.005)
            await delivery.ack()

    await asyncio.gather(work(0), work(1))
    assert sorted(seen[0] + seen[1]) == sorted(b"%d" % number for number in range(20))
    assert seen[0]
    assert seen[1]


async def test_a_busy_worker_holds_back_no_other_task(connect: Connect) -> None:
    gatekeeper = await connect("gatekeeper")
    busy = await (await connect("worker-1")).consume(TASKS)
    idle = await (await connect("worker-2")).consume(TASKS)
    await give(gatekeeper, b"long", TASKS.subject)
    held = await take(busy)
    for data in (b"short-1", b"short-2", b"short-3"):
        await give(gatekeeper, data, TASKS.subject)
        delivery = await take(idle, 0.5 * TASKS.ack_wait)
        assert (delivery.message.data, delivery.attempts) == (data, 1)
        await delivery.ack()
    await held.ack()


async def test_a_consumer_that_leaves_gives_back_what_it_has_not_taken(connect: Connect) -> None:
    gatekeeper = await connect("gatekeeper")
    leaving = await (await connect("worker-1")).consume(TASKS)
    staying = await (await connect("worker-2")).consume(TASKS)
    assert await leaving.next(0.05) is None
    await give(gatekeeper, b"task", TASKS.subject)
    await asyncio.sleep(0.1)
    await leaving.close()
    await leaving.close()
    await take(staying, 0.5 * TASKS.ack_wait)


async def test_several_subscriptions_of_one_process_are_independent(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    one, other = await bus.consume(QUICK), await bus.consume(task_consumer("pm"))
    waiting = asyncio.gather(take(one), take(other))
    await give(bus, b"request", "gw.task.pm.default.normal")
    await give(bus, b"shard", SUBJECT)
    deliveries = await waiting
    assert [delivery.message.data for delivery in deliveries] == [b"shard", b"request"]


async def test_a_pool_gets_only_its_own_tasks(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    subscription = await bus.consume(task_consumer("worker"))
    await give(bus, b"task", SUBJECT)
    assert await subscription.next(0.2) is None


async def test_a_queue_that_was_not_set_up_is_an_error(connect: Connect) -> None:
    bus = await connect("worker")
    with pytest.raises(BusError):
        await bus.consume(Consumer("TASKS", "worker-gpu", "gw.task.worker.gpu", "worker"))


async def test_a_settled_task_still_makes_its_id_a_duplicate(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    await give(bus, b"task", SUBJECT)
    subscription = await bus.consume(QUICK)
    await (await take(subscription)).ack()
    await give(bus, b"task", SUBJECT)
    assert await subscription.next(0.2) is None
