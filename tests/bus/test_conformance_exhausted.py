"""Conformance of both backends: what becomes of a message that was delivered as often as may be and never settled."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from gatewright.bus.port import Bus
from gatewright.bus.topology import EXHAUSTED_CONSUMER, EXHAUSTED_SUBJECT, Consumer
from tests.bus.backends import TASKS, Backend, Connect, give

TWICE = Consumer("TASKS", "worker-brief-normal", "gw.task.worker.brief.normal", "worker", ack_wait=0.1, max_deliver=2)


@pytest.fixture
async def bus(backend: Backend, connect: Connect) -> Bus:
    await backend.ensure([TWICE])
    return await connect("gatekeeper")


async def exhaust(bus: Bus) -> int:
    """A task that is given out as often as may be; its place in the stream."""
    await give(bus, b"poison", TWICE.subject)
    subscription = await bus.consume(TWICE)
    sequence = 0
    for _ in range(2):
        delivery = await subscription.next(3)
        assert delivery is not None
        sequence = delivery.message.sequence
    assert await subscription.next(0.4) is None
    await subscription.close()
    return sequence


async def test_it_is_reported_once_and_the_report_is_kept(bus: Bus) -> None:
    sequence = await exhaust(bus)
    reports = await bus.consume(EXHAUSTED_CONSUMER)
    report = await reports.next(3)
    assert report is not None
    assert report.message.subject == f"{EXHAUSTED_SUBJECT.removesuffix('>')}{TWICE.durable}"
    told = msgspec.json.decode(report.message.data)
    assert (told["stream"], told["stream_seq"], told["deliveries"]) == ("TASKS", sequence, 2)
    await report.ack()
    assert await reports.next(0.3) is None


async def test_it_stays_in_its_queue_and_can_be_read_and_taken_off(bus: Bus) -> None:
    sequence = await exhaust(bus)
    stored = await bus.stored("TASKS", sequence)
    assert stored is not None
    assert (stored.subject, stored.data, stored.sequence) == (TWICE.subject, b"poison", sequence)
    assert stored.headers["Gw-Schema"] == "task_contract.v1"
    await bus.remove("TASKS", sequence)
    assert await bus.stored("TASKS", sequence) is None
    assert [message async for message in bus.unsettled("gw.task.>")] == []
    await bus.remove("TASKS", sequence)


async def test_it_holds_back_nothing_behind_it(bus: Bus) -> None:
    await exhaust(bus)
    await give(bus, b"honest", TWICE.subject)
    delivery = await (await bus.consume(TWICE)).next(3)
    assert delivery is not None
    assert delivery.message.data == b"honest"


async def test_a_message_that_is_taken_off_while_it_waits_is_not_delivered(bus: Bus) -> None:
    await give(bus, b"unwanted", TASKS.subject)
    await give(bus, b"wanted", TASKS.subject)
    messages = [message async for message in bus.unsettled(TASKS.subject)]
    await bus.remove("TASKS", messages[0].sequence)
    delivery = await (await bus.consume(TASKS)).next(3)
    assert delivery is not None
    assert delivery.message.data == b"wanted"


async def test_a_message_removed_while_in_progress_can_still_be_settled(bus: Bus) -> None:
    await give(bus, b"in hand", TASKS.subject)
    queue = dataclasses.replace(TASKS)
    subscription = await bus.consume(queue)
    delivery = await subscription.next(3)
    assert delivery is not None
    await bus.remove("TASKS", delivery.message.sequence)
    await delivery.in_progress()
    await delivery.ack()
    assert await subscription.next(0.2) is None


async def test_nothing_is_stored_where_nothing_was(bus: Bus) -> None:
    assert await bus.stored("TASKS", 4711) is None
