"""What only a real server can do to a bus: restart, fall silent, lose an answer, refuse a credential, be read by others."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gatewright.bus.jetstream import JetStreamBus
from gatewright.bus.setup import ensure_topology
from gatewright.bus.topology import ARTIFACT_BUCKET, ARTIFACT_STREAM, Consumer, task_consumer
from gatewright.errors import BusError, ConfigurationError
from gatewright.stack.nats_server import NatsServer
from tests.bus.backends import Raw
from tests.bus.network import Relay

PASSWORD = "a-secret-word"
TASKS = task_consumer("worker")


@pytest.fixture
async def bus(nats_server: NatsServer) -> AsyncIterator[JetStreamBus]:
    await ensure_topology(nats_server.url)
    connected = await JetStreamBus.connect(nats_server.url, name="worker")
    yield connected
    await connected.close()


async def give(bus: JetStreamBus, data: bytes) -> None:
    await bus.publish(TASKS.subject, data, schema="task_contract.v1", message_id=data.decode())


async def restart(server: NatsServer, directory: Path, *, password: str = PASSWORD, kill: bool = False) -> NatsServer:
    if kill:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(BaseException, match="ended by itself"):
            await server.ended()
    await server.stop()
    return await NatsServer.start(directory, port=server.port, password=password)


@pytest.mark.parametrize("kill", [False, True])
async def test_a_restarted_server_loses_nothing_and_an_open_pull_goes_on(tmp_path: Path, *, kill: bool) -> None:
    server = await NatsServer.start(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="worker")
    subscription = await bus.consume(TASKS)
    await give(bus, b"1")
    first = await subscription.next(3)
    assert first is not None
    await first.ack()
    waiting = asyncio.create_task(subscription.next(15))
    await asyncio.sleep(0.1)
    server = await restart(server, tmp_path, kill=kill)
    start = time.perf_counter()
    for number in range(2, 6):
        await give(bus, b"%d" % number)
    got = [await waiting, *[await subscription.next(5) for _ in range(3)]]
    assert [delivery and delivery.message.data for delivery in got] == [b"2", b"3", b"4", b"5"]
    assert time.perf_counter() - start < 10
    await bus.close()
    await server.stop()


async def test_a_publish_waits_for_a_server_that_is_away(tmp_path: Path) -> None:
    server = await NatsServer.start(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    await server.stop()
    publishing = asyncio.create_task(bus.publish("gw.run.r", b"1", schema="s", message_id="m", expected_subject_sequence=0))
    await asyncio.sleep(0.3)
    assert not bus.connected
    async with await NatsServer.start(tmp_path, port=server.port, password=PASSWORD):
        ack = await publishing
        assert (ack.sequence, [message.sequence async for message in bus.replay("gw.run.r")]) == (1, [1])
        await bus.close()


async def test_a_call_gives_up_on_a_server_that_stays_away(tmp_path: Path) -> None:
    server = await NatsServer.start(tmp_path)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="worker", patience=0.5)
    await server.stop()
    start = time.perf_counter()
    with pytest.raises(BusError):
        await give(bus, b"1")
    assert time.perf_counter() - start < 3
    await bus.close()


@pytest.mark.parametrize("expected", [None, 0])
async def test_a_publish_whose_answer_is_lost_is_stored_once(
    nats_server: NatsServer, bus: JetStreamBus, expected: int | None
) -> None:
    async with Relay(nats_server.port) as relay:
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
    server = await NatsServer.start(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="cli")
    seen = []
    async with asyncio.timeout(15), aclosing(bus.replay("gw.run.*", follow=True)) as messages:
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
    start = time.perf_counter()
    delivery = await subscription.next(9)
    assert delivery is not None
    assert time.perf_counter() - start < 8


async def test_a_queue_that_is_deleted_under_its_consumer_is_an_error(bus: JetStreamBus, connect_raw: Raw) -> None:
    subscription = await bus.consume(TASKS)
    waiting = asyncio.create_task(subscription.next(5))
    await asyncio.sleep(0.1)
    await (await connect_raw()).jetstream().delete_consumer("TASKS", TASKS.durable)
    with pytest.raises(BusError) as caught:
        await waiting
    assert caught.value.reason == "consumer_missing"


async def test_a_replay_that_is_left_early_leaves_no_consumer_behind(bus: JetStreamBus, connect_raw: Raw) -> None:
    for number in range(3):
        await bus.publish("gw.run.r", b"%d" % number, schema="s", message_id=f"m{number}")
    async with aclosing(bus.replay("gw.run.r", follow=True)) as messages:
        await anext(messages)
    await bus.connection.flush()
    assert await (await connect_raw()).jetstream().consumers_info("RUNS") == []


async def test_a_wrong_credential_is_refused_at_once_and_not_shown(nats_server: NatsServer) -> None:
    start = time.perf_counter()
    with pytest.raises(BusError) as caught:
        await JetStreamBus.connect(f"nats://gatewright:{PASSWORD}@127.0.0.1:{nats_server.port}", name="worker")
    assert time.perf_counter() - start < 2
    assert "Authorization" in caught.value.message
    assert PASSWORD not in caught.value.message


async def test_no_server_is_an_error_after_the_patience_of_the_caller() -> None:
    start = time.perf_counter()
    with pytest.raises(BusError, match=r"127\.0\.0\.1:1") as caught:
        await JetStreamBus.connect(f"nats://u:{PASSWORD}@127.0.0.1:1", name="worker", patience=0.5)
    assert 0.4 < time.perf_counter() - start < 2
    assert PASSWORD not in caught.value.message


async def test_a_name_that_cannot_be_an_inbox_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        await JetStreamBus.connect("nats://127.0.0.1:1", name="worker.>")


async def test_a_credential_that_is_no_longer_taken_ends_the_bus(tmp_path: Path) -> None:
    server = await NatsServer.start(tmp_path, password=PASSWORD)
    await ensure_topology(server.url)
    lost: asyncio.Queue[BusError] = asyncio.Queue()
    bus = await JetStreamBus.connect(server.url, name="worker", on_lost=lost.put_nowait)
    waiting = asyncio.create_task((await bus.consume(TASKS)).next(30))
    await asyncio.sleep(0.1)
    server = await restart(server, tmp_path, password="another")
    assert "refused the credential of worker" in (await asyncio.wait_for(lost.get(), 5)).message
    with pytest.raises(BusError):
        await asyncio.wait_for(waiting, 3)
    with pytest.raises(BusError):
        await give(bus, b"1")
    assert lost.empty()
    await bus.close()
    await server.stop()


async def test_closing_on_purpose_is_not_a_loss(nats_server: NatsServer) -> None:
    lost: list[BusError] = []
    bus = await JetStreamBus.connect(nats_server.url, name="worker", on_lost=lost.append)
    await bus.close()
    assert lost == []


async def test_the_connection_bears_the_name_of_the_role_and_uses_its_own_inbox(
    nats_server: NatsServer, bus: JetStreamBus
) -> None:
    await (await bus.consume(TASKS)).next(0.05)
    monitor = http.client.HTTPConnection("127.0.0.1", int(nats_server.monitoring_url.rpartition(":")[2]))
    monitor.request("GET", "/connz?subs=1")
    (connection,) = json.loads(monitor.getresponse().read())["connections"]
    monitor.close()
    assert connection["name"] == "worker"
    assert all(subject.startswith("_INBOX_worker.") for subject in connection["subscriptions_list"])


async def test_artifacts_are_objects_that_other_clients_read(bus: JetStreamBus, connect_raw: Raw) -> None:
    data = os.urandom(1_500_000)
    uri = await bus.put_artifact(data)
    store = await (await connect_raw()).jetstream().object_store(ARTIFACT_BUCKET)
    digest = uri.rpartition(":")[2]
    assert (await store.get(digest)).data == data
    info = await store.get_info(digest)
    assert (info.size, info.chunks, info.name) == (len(data), 3, digest)


async def test_objects_of_other_clients_are_artifacts(bus: JetStreamBus, connect_raw: Raw) -> None:
    data = os.urandom(300_000)
    digest = hashlib.sha256(data).hexdigest()
    store = await (await connect_raw()).jetstream().object_store(ARTIFACT_BUCKET)
    await store.put(digest, data)
    assert await bus.get_artifact(f"artifact:sha256:{digest}") == data


async def test_an_artifact_that_is_there_is_not_stored_again(bus: JetStreamBus, connect_raw: Raw) -> None:
    for _ in range(3):
        await bus.put_artifact(b"the same bytes")
    info = await (await connect_raw()).jetstream().stream_info(ARTIFACT_STREAM)
    assert info.state.messages == 2


async def test_an_artifact_that_was_deleted_can_be_put_again(bus: JetStreamBus, connect_raw: Raw) -> None:
    uri = await bus.put_artifact(b"bytes")
    store = await (await connect_raw()).jetstream().object_store(ARTIFACT_BUCKET)
    await store.delete(uri.rpartition(":")[2])
    assert await bus.put_artifact(b"bytes") == uri
    assert await bus.get_artifact(uri) == b"bytes"


@pytest.mark.parametrize("field", [{"nuid": "*"}, {"nuid": "a.b"}, {"size": 1 << 60}, {"size": -1}, {"chunks": 1 << 40}])
async def test_a_forged_description_of_an_artifact_is_not_followed(
    bus: JetStreamBus, connect_raw: Raw, field: dict[str, object]
) -> None:
    uri = await bus.put_artifact(b"bytes")
    raw = (await connect_raw()).jetstream()
    (subject,) = (await raw.stream_info(ARTIFACT_STREAM, subjects_filter=f"$O.{ARTIFACT_BUCKET}.M.>")).state.subjects or {}
    description = json.loads((await raw.get_last_msg(ARTIFACT_STREAM, subject)).data or b"")
    await raw.publish(subject, json.dumps(description | field).encode())
    if "chunks" in field:
        assert await bus.get_artifact(uri) == b"bytes"
    else:
        with pytest.raises(BusError.__mro__[1]) as caught:
            await bus.get_artifact(uri)
        assert getattr(caught.value, "reason", "") == "artifact_damaged"


async def test_a_service_can_be_found_by_the_tools_of_nats(bus: JetStreamBus, connect_raw: Raw) -> None:
    await bus.serve("worker", {})
    reply = await (await connect_raw()).request("$SRV.PING", b"", timeout=2)
    assert json.loads(reply.data)["name"] == "worker"


async def test_the_same_queue_may_be_consumed_twice_by_one_process(bus: JetStreamBus) -> None:
    one, other = await bus.consume(TASKS), await bus.consume(TASKS)
    waiting = asyncio.gather(one.next(3), other.next(3))
    await give(bus, b"1")
    await give(bus, b"2")
    assert {delivery.message.data for delivery in await waiting if delivery} == {b"1", b"2"}


async def test_a_broken_connection_gives_a_task_to_nobody_twice_at_once(nats_server: NatsServer, bus: JetStreamBus) -> None:
    async with Relay(nats_server.port) as relay:
        far = await JetStreamBus.connect(nats_server.url.replace(str(nats_server.port), str(relay.port)), name="worker")
        subscription = await far.consume(Consumer("TASKS", TASKS.durable, TASKS.subject, "worker"))
        assert await subscription.next(0.1) is None
        relay.cut()
        assert await subscription.next(0.5) is None
        await give(bus, b"1")
        await give(bus, b"2")
        deliveries = [await subscription.next(3), await subscription.next(3)]
        assert [(delivery.message.data, delivery.attempts) for delivery in deliveries if delivery] == [(b"1", 1), (b"2", 1)]
        await far.close()
