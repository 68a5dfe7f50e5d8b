"""A server that has little room: streams are made as large as it has room for, and it is said when that is too little."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology, halved_sizes
from gatewright.bus.topology import RESULT_CONSUMER, STREAMS, upload_stream
from gatewright.errors import BusError, HostError
from tests.bus.backends import Raw
from tests.unauthenticated_nats import OpenServer

MIB = 1 << 20
EVERY = (*STREAMS, upload_stream(DEFAULT_PUBLISHER))
BOUNDED = {stream.name: stream for stream in EVERY if stream.least_bytes > 0}
Start = Callable[[int], Awaitable[OpenServer]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a server whose account may keep so many bytes; always on the same files, one after the other."""
    started: list[OpenServer] = []

    async def again(storage: int) -> OpenServer:
        for server in started:
            await server.stop()
        started.append(await OpenServer.open(tmp_path / "nats", storage=storage))
        return started[-1]

    yield again
    await started[-1].stop()


async def limits(server: OpenServer, connect_raw: Raw) -> dict[str, int | None]:
    raw = (await connect_raw(server)).jetstream()
    return {name: (await raw.stream_info(name)).config.max_bytes for name in BOUNDED}


async def test_streams_are_as_large_as_the_storage_that_there_is(start: Start, connect_raw: Raw) -> None:
    server = await start(700 * MIB)
    small = await ensure_topology(server.url)
    assert (
        small
        == await limits(server, connect_raw)
        == {
            "INTAKE": 16 * MIB,
            "INTAKE_operator": 16 * MIB,
            "RESULTS": 512 * MIB,
            "UPLOADS_default": 32 * MIB,
        }
    )


async def test_several_processes_that_set_up_a_small_server_at_once_agree(start: Start, connect_raw: Raw) -> None:
    server = await start(700 * MIB)
    buses = [await JetStreamBus.connect(server.url, name=f"role-{number}") for number in range(4)]
    await asyncio.gather(*(ensure_topology(bus) for bus in buses))
    assert sum(size or 0 for size in (await limits(server, connect_raw)).values()) <= 700 * MIB
    for bus in buses:
        await bus.close()


async def test_streams_grow_when_there_is_more_storage_and_keep_what_they_hold(start: Start, connect_raw: Raw) -> None:
    server = await start(120 * MIB)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="worker")
    await bus.publish("gw.result.worker", b"1", schema="s", message_id="m")
    await bus.close()
    server = await start(20_000 * MIB)
    assert await ensure_topology(server.url) == {}
    assert await limits(server, connect_raw) == {name: stream.max_bytes for name, stream in BOUNDED.items()}
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    assert await (await bus.consume(RESULT_CONSUMER)).next(3) is not None
    await bus.close()


async def test_a_server_without_the_least_storage_is_refused_with_what_to_do(start: Start) -> None:
    server = await start(60 * MIB)
    with pytest.raises(HostError, match=r"has not the 112 MiB .* at the least: free some space") as refused:
        await ensure_topology(server.url)
    assert refused.value.reason == "bus_storage_too_small"


async def test_a_publisher_reports_a_server_with_full_storage(start: Start) -> None:
    server = await start(120 * MIB)
    await ensure_topology(server.url)
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    with pytest.raises(BusError) as refused:
        await publish_without_end(bus)
    assert refused.value.reason == "bus_storage_full"
    assert list(bus.streams.failing()) == ["stream RESULTS"]
    await bus.close()


async def publish_without_end(bus: JetStreamBus) -> None:
    for number in itertools.count():
        await bus.publish("gw.result.worker", b"x" * MIB, schema="s", message_id=f"m{number}")


def test_every_stream_that_reserves_storage_has_a_minimum_size() -> None:
    assert {stream.name for stream in EVERY if stream.max_bytes > 0} == set(BOUNDED)
    first, *_, last = halved_sizes(tuple(BOUNDED.values()))
    assert first == {name: stream.max_bytes for name, stream in BOUNDED.items()}
    assert last == {name: stream.least_bytes for name, stream in BOUNDED.items()}
