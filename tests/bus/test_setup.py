"""Setting up the bus: once or six times at once, over what was there before."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from nats.js.api import RetentionPolicy

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import LOCK_STREAM, STREAMS, consumers, intake_stream, task_consumer, upload_stream
from gatewright.errors import BusError, ConfigurationError
from tests.bus.backends import Raw
from tests.unauthenticated_nats import OpenServer

TASKS = task_consumer("worker")


async def test_everything_of_the_topology_is_there_afterwards(bare_server: OpenServer, connect_raw: Raw) -> None:
    await ensure_topology(bare_server.url)
    raw = (await connect_raw(bare_server)).jetstream()
    streams = {info.config.name: info.config for info in await raw.streams_info()}
    uploads = upload_stream(DEFAULT_PUBLISHER)
    assert set(streams) == {*(stream.name for stream in (*STREAMS, uploads)), LOCK_STREAM}
    assert (streams[uploads.name].max_bytes, streams[uploads.name].max_age) == (512 << 20, 7 * 86_400)
    for name in ("INTAKE", "TASKS", "RESULTS"):
        assert streams[name].retention == RetentionPolicy.WORK_QUEUE
    for stream in STREAMS:
        assert (
            streams[stream.name].duplicate_window
            == stream.dedupe_seconds
            == (0.1 if stream.name in {"INTAKE", "INTAKE_operator", "ARTIFACTS"} else 120)
        )
    durables = {(stream, info.name) for stream in streams if stream for info in await raw.consumers_info(stream)}
    assert durables == {(queue.stream, queue.durable) for queue in consumers()}


async def test_six_processes_may_set_up_at_once(bare_server: OpenServer, connect_raw: Raw) -> None:
    buses = [await JetStreamBus.connect(bare_server.url, name=f"role-{number}") for number in range(6)]
    await asyncio.gather(*(ensure_topology(bus) for bus in buses))
    await asyncio.gather(*(ensure_topology(bus) for bus in buses))
    for bus in buses:
        await bus.close()
    raw = (await connect_raw(bare_server)).jetstream()
    streams = [info.config.name for info in await raw.streams_info()]
    wanted = [*(stream.name for stream in STREAMS), upload_stream(DEFAULT_PUBLISHER).name, LOCK_STREAM]
    assert sorted(filter(None, streams)) == sorted(wanted)


async def test_setting_up_again_keeps_what_is_stored(nats_server: OpenServer, bus: JetStreamBus) -> None:
    await bus.publish(TASKS.subject, b"1", schema="s", message_id="m")
    await ensure_topology(nats_server.url)
    assert await (await bus.consume(TASKS)).next(3) is not None


async def test_a_consumer_that_drifted_is_updated(nats_server: OpenServer, bus: JetStreamBus, connect_raw: Raw) -> None:
    await ensure_topology(bus, queues=[dataclasses.replace(TASKS, ack_wait=99.0, max_deliver=2)])
    raw = (await connect_raw(nats_server)).jetstream()
    drifted = (await raw.consumer_info("TASKS", TASKS.durable)).config
    assert (drifted.ack_wait, drifted.max_deliver) == (99.0, 2)
    await ensure_topology(bus)
    updated = (await raw.consumer_info("TASKS", TASKS.durable)).config
    assert (updated.ack_wait, updated.max_deliver) == (TASKS.ack_wait, TASKS.max_deliver)


async def test_a_stream_that_drifted_is_updated_and_keeps_what_the_operator_set(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    raw = (await connect_raw(nats_server)).jetstream()
    config = (await raw.stream_info("DEAD")).config
    config.duplicate_window = 5
    config.max_bytes = 1 << 30
    await raw.update_stream(config)
    await ensure_topology(bus)
    updated = (await raw.stream_info("DEAD")).config
    assert (updated.duplicate_window, updated.max_bytes) == (120, 1 << 30)


async def test_a_stream_that_cannot_be_updated_is_named_with_the_difference(bare_server: OpenServer, connect_raw: Raw) -> None:
    raw = (await connect_raw(bare_server)).jetstream()
    await raw.add_stream(name="TASKS", subjects=["gw.task.>"])
    with pytest.raises(ConfigurationError, match=r"TASKS.*retention is 'limits' and must be 'workqueue'"):
        await ensure_topology(bare_server.url)


async def test_a_consumer_that_cannot_be_updated_is_named_with_the_difference(
    bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw
) -> None:
    raw = (await connect_raw(nats_server)).jetstream()
    await raw.delete_consumer("TASKS", TASKS.durable)
    await raw.add_consumer("TASKS", durable_name=TASKS.durable, filter_subject=TASKS.subject, deliver_subject="elsewhere")
    with pytest.raises(ConfigurationError, match=TASKS.durable):
        await ensure_topology(bus)


async def test_no_message_can_be_taken_out_of_the_ledger(bus: JetStreamBus, nats_server: OpenServer, connect_raw: Raw) -> None:
    await bus.publish("gw.run.r", b"1", schema="s", message_id="m")
    raw = (await connect_raw(nats_server)).jetstream()
    with pytest.raises(Exception, match="message delete not permitted"):
        await raw.delete_msg("RUNS", 1)


async def test_a_server_without_jetstream_streams_names_the_missing_queue(bare_server: OpenServer) -> None:
    bus = await JetStreamBus.connect(bare_server.url, name="worker", patience=0.5)
    with pytest.raises(BusError, match=r"TASKS\.worker-default-normal"):
        await bus.consume(TASKS)
    with pytest.raises(BusError):
        await bus.publish(TASKS.subject, b"1", schema="s", message_id="m")
    await bus.close()


async def test_the_memory_bus_refuses_what_jetstream_would_not_update() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    await ensure_topology(bus)
    with pytest.raises(ConfigurationError, match="retention is 'workqueue' and must be 'limits'"):
        await ensure_topology(bus, streams=[dataclasses.replace(stream, retention="limits") for stream in STREAMS])
    await bus.close()


async def test_a_stream_at_its_message_limit_is_reported_full(bus: JetStreamBus) -> None:
    """What is full is waited for; any other refusal of the server is not."""
    small = dataclasses.replace(next(stream for stream in STREAMS if stream.name == "RESULTS"), max_messages=1)
    await ensure_topology(bus, streams=[small])
    await bus.publish("gw.result.worker", b"x", schema="s", message_id="1")
    with pytest.raises(BusError) as refused:
        await bus.publish("gw.result.worker", b"x", schema="s", message_id="2")
    assert refused.value.reason == "bus_storage_full"


async def test_one_publisher_cannot_take_the_room_of_the_others(bus: JetStreamBus) -> None:
    await ensure_topology(bus, streams=[dataclasses.replace(intake_stream("ci"), max_per_subject=2)])
    for number in range(2):
        await bus.publish("gw.intake.request.ci", b"x", schema="run_request.v1", message_id=f"ci-{number}")
    with pytest.raises(BusError, match="maximum messages per subject") as refused:
        await bus.publish("gw.intake.request.ci", b"x", schema="run_request.v1", message_id="ci-3")
    assert refused.value.reason == "queue_full"
    await bus.publish("gw.intake.request", b"x", schema="run_request.v1", message_id="other")
