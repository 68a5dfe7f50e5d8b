"""Restarts, cut connections, lost answers and silence: nothing is lost, nothing is done twice, nobody hangs."""

from __future__ import annotations

import asyncio
import warnings
from contextlib import aclosing
from pathlib import Path

import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError
from tests.bus.backends import ANY_TIME, TASKS, Raw, give
from tests.bus.failures import PASSWORD, restart
from tests.tcp_proxy import Wire
from tests.unauthenticated_nats import OpenServer


@pytest.mark.parametrize("kill", [False, True])
async def test_a_restarted_server_loses_nothing_and_an_open_pull_goes_on(tmp_path: Path, *, kill: bool) -> None:
    server = await OpenServer.open(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="worker")
    subscription = await bus.consume(TASKS)
    await give(bus, b"1")
    first = await subscription.next(3)
    assert first is not None
    await first.ack()
    waiting = asyncio.create_task(subscription.next(ANY_TIME))
    await asyncio.sleep(0.1)
    server = await restart(server, tmp_path, kill=kill)
    for number in range(2, 6):
        await give(bus, b"%d" % number)
    got = [await waiting, *[await subscription.next(ANY_TIME) for _ in range(3)]]
    assert [delivery and delivery.message.data for delivery in got] == [b"2", b"3", b"4", b"5"]
    await bus.close()
    await server.stop()


async def test_a_publish_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    server = await OpenServer.open(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    await server.stop()
    publishing = asyncio.create_task(bus.publish("gw.run.r", b"1", schema="s", message_id="m", expected_subject_sequence=0))
    await asyncio.sleep(0.3)
    assert not bus.connected
    async with await OpenServer.open(tmp_path, port=server.port, password=PASSWORD):
        ack = await publishing
        assert (ack.sequence, [message.sequence async for message in bus.replay("gw.run.r")]) == (1, [1])
        await bus.close()


async def test_a_silent_server_holds_no_socket_of_ours(tmp_path: Path) -> None:
    """One that is stopped, or whose host is: each attempt fails after its connection was made."""
    server = await OpenServer.open(tmp_path)
    bus = await JetStreamBus.connect(server.url, name="worker")
    await server.stop()
    begun: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    ends: asyncio.Queue[bytes] = asyncio.Queue()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.put_nowait(writer)
        ends.put_nowait(await reader.read())
        writer.close()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        async with await asyncio.start_server(say_nothing, "127.0.0.1", server.port):
            await begun.get()
            assert await ends.get() == b""
            await begun.get()
            await bus.close()
    assert [str(each.message) for each in told if issubclass(each.category, ResourceWarning)] == []


async def test_a_call_gives_up_on_a_server_that_stays_away(tmp_path: Path) -> None:
    server = await OpenServer.open(tmp_path)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="worker", patience=0.5)
    await server.stop()
    with pytest.raises(BusError):
        await give(bus, b"1")
    await bus.close()


@pytest.mark.parametrize("expected", [None, 0])
async def test_a_publish_whose_answer_is_lost_is_stored_once(
    nats_server: OpenServer, bus: JetStreamBus, expected: int | None
) -> None:
    async with Wire(nats_server.port) as relay:
        far = await JetStreamBus.connect(nats_server.url.replace(str(nats_server.port), str(relay.port)), name="gatekeeper")
        relay.swallow_answers = True
        publishing = asyncio.create_task(
            far.publish("gw.run.r", b"1", schema="s", message_id="m", expected_subject_sequence=expected)
        )
        await asyncio.sleep(0.3)
        relay.swallow_answers = False
        relay.cut()
        assert (await publishing).sequence == 1
        assert [message.data async for message in bus.replay("gw.run.r")] == [b"1"]
        await far.close()


async def test_a_following_reader_survives_a_restart(tmp_path: Path) -> None:
    server = await OpenServer.open(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="cli")
    seen = []
    async with aclosing(bus.replay("gw.run.*", follow=True)) as messages:
        for number in range(1, 5):
            if number == 3:
                server = await restart(server, tmp_path)
            await bus.publish("gw.run.r", b"%d" % number, schema="s", message_id=f"m{number}")
            seen.append((await anext(messages)).data)
    assert seen == [b"1", b"2", b"3", b"4"]
    await bus.close()
    await server.stop()


async def test_a_subscription_that_the_server_has_forgotten_is_made_anew(bus: JetStreamBus) -> None:
    subscription = await bus.consume(TASKS)
    assert await subscription.next(0.1) is None
    client = bus.connection.client
    await client._send_unsubscribe(client._sid)
    await give(bus, b"1")
    assert await subscription.next(ANY_TIME) is not None


async def test_a_queue_that_is_deleted_under_its_consumer_is_an_error(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    subscription = await bus.consume(TASKS)
    waiting = asyncio.create_task(subscription.next(5))
    await asyncio.sleep(0.1)
    await (await connect_raw(nats_server)).jetstream().delete_consumer("TASKS", TASKS.durable)
    with pytest.raises(BusError) as caught:
        await waiting
    assert caught.value.reason == "consumer_missing"


async def test_the_same_queue_may_be_consumed_twice_by_one_process(bus: JetStreamBus) -> None:
    one, other = await bus.consume(TASKS), await bus.consume(TASKS)
    waiting = asyncio.gather(one.next(3), other.next(3))
    await give(bus, b"1")
    await give(bus, b"2")
    assert {delivery.message.data for delivery in await waiting if delivery} == {b"1", b"2"}


async def test_a_broken_connection_never_delivers_a_task_twice_at_once(nats_server: OpenServer, bus: JetStreamBus) -> None:
    async with Wire(nats_server.port) as relay:
        far = await JetStreamBus.connect(nats_server.url.replace(str(nats_server.port), str(relay.port)), name="worker")
        subscription = await far.consume(Consumer("TASKS", TASKS.durable, TASKS.subject, "worker"))
        assert await subscription.next(0.1) is None
        relay.cut()
        assert await subscription.next(0.5) is None
        await give(bus, b"1")
        await give(bus, b"2")
        deliveries = [await subscription.next(3), await subscription.next(3)]
        assert sorted(delivery.message.data for delivery in deliveries if delivery) == [b"1", b"2"]
        assert all(delivery.attempts <= 2 for delivery in deliveries if delivery)
        await far.close()
