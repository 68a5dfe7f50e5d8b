"""The two backends that the conformance suite runs on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Protocol

from nats.aio.client import Client

from gatewright.bus.artifacts import digest_in
from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.object_store import SIZE_HEADER
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Bus
from gatewright.bus.topology import Consumer, StreamSpec, artifact_subject, task_consumer, task_consumers
from tests.unauthenticated_nats import OpenServer

Connect = Callable[[str], Awaitable[Bus]]
Raw = Callable[[OpenServer], Awaitable[Client]]

TASKS = task_consumer("worker")
#: Seconds for what has to come: longer than a test may take, so that only what is waited for ends the wait.
ANY_TIME = 600.0
#: Queues whose messages come again only when they are given back: by themselves they would after the end of the test.
PATIENT_CLASSES = tuple(replace(each, ack_wait=ANY_TIME) for each in task_consumers("worker", "patient"))
PATIENT = replace(task_consumer("worker", "patient-too"), ack_wait=ANY_TIME)


async def give(bus: Bus, data: bytes = b"task", subject: str = TASKS.subject) -> None:
    """Put a task into a queue; the data is its id."""
    await bus.publish(subject, data, schema="task_contract.v1", message_id=f"{subject}:{data!r}")


class Backend(Protocol):
    """A place where buses meet, with the topology set up."""

    async def connect(self, name: str) -> Bus: ...

    async def ensure(self, queues: Iterable[Consumer] | None = None, streams: Iterable[StreamSpec] | None = None) -> None:
        """Set up queues and streams besides those of the topology."""

    async def spoil(self, uri: str, data: bytes) -> None:
        """Store other bytes under an artifact's name before anybody has stored it, as a hostile writer could."""

    async def close(self) -> None: ...


class MemoryBackend:
    def __init__(self, partitions: int = 1) -> None:
        self.server = MemoryServer(partitions=partitions)
        self._buses: list[MemoryBus] = []

    async def connect(self, name: str) -> MemoryBus:
        bus = MemoryBus(self.server)
        self._buses.append(bus)
        return bus

    async def ensure(self, queues: Iterable[Consumer] | None = None, streams: Iterable[StreamSpec] | None = None) -> None:
        await ensure_topology(await self.connect("setup"), queues=queues, streams=streams)

    async def spoil(self, uri: str, data: bytes) -> None:
        self.server.artifacts[digest_in(uri)] = data

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close()


class JetStreamBackend:
    def __init__(self, server: OpenServer, partitions: int = 1) -> None:
        self.server = server
        self.address = BusAddress(server.url, partitions=partitions)
        self._buses: list[JetStreamBus] = []

    async def connect(self, name: str) -> JetStreamBus:
        bus = await JetStreamBus.connect(self.address, name=name)
        self._buses.append(bus)
        return bus

    async def ensure(self, queues: Iterable[Consumer] | None = None, streams: Iterable[StreamSpec] | None = None) -> None:
        await ensure_topology(self.address, queues=queues, streams=streams)

    async def spoil(self, uri: str, data: bytes) -> None:
        client = Client()
        await client.connect(self.server.url)
        size = {SIZE_HEADER: str(len(data))}
        await client.jetstream().publish(artifact_subject("hostile", digest_in(uri), 0), data, headers=size)
        await client.close()

    async def close(self) -> None:
        for bus in self._buses:
            await bus.close()
