"""Conformance of both backends: looking at what is stored without taking it, and reading on from a place."""

from __future__ import annotations

from gatewright.bus.port import Bus
from gatewright.bus.topology import RESULT_CONSUMER
from tests.bus.backends import Connect

RUN = "gw.run.run-00000001"


async def put(bus: Bus, subject: str, *names: str) -> list[int]:
    acks = [await bus.publish(subject, b"{}", schema="error.v1", message_id=name) for name in names]
    return [ack.sequence for ack in acks]


async def test_only_waiting_and_claimed_messages_are_seen(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    sequences = await put(bus, "gw.result.worker", "1", "2", "3")
    await put(bus, "gw.result.pm", "4")
    queue = await bus.consume(RESULT_CONSUMER)
    settled, held = await queue.next(5.0), await queue.next(5.0)
    assert settled is not None
    assert held is not None
    await settled.ack()
    await bus.kv_get("nothing")  # the server has seen the acknowledgement before it answers this
    assert [message.sequence async for message in bus.unsettled("gw.result.worker")] == sequences[1:]
    assert len([message async for message in bus.unsettled("gw.result.>")]) == 3
    assert [message async for message in bus.unsettled("gw.result.reviewer")] == []
    await held.nak()
    others = [await queue.next(5.0), await queue.next(5.0)]
    assert held.message.sequence in {other.message.sequence for other in others if other is not None}
    await queue.close()


async def test_a_replay_begins_after_the_message_that_was_seen_last(connect: Connect) -> None:
    bus = await connect("gatekeeper")
    first, second, third = await put(bus, RUN, "1", "2", "3")
    assert [message.sequence async for message in bus.replay(RUN, after=first)] == [second, third]
    assert [message.sequence async for message in bus.replay("gw.run.*", after=third)] == []
    following = bus.replay(RUN, follow=True, after=third)
    (fourth,) = await put(bus, RUN, "4")
    assert (await anext(following)).sequence == fourth
    await following.aclose()
