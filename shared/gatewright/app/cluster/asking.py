"""Queries the state of an installation over the bus: processes of every role, streams, queues, the server. It judges nothing.

Operators may do this, and observers, who read no message.

A process reports its own state, unverified: this helps to find faults, and proves nothing.
"""

from __future__ import annotations

import asyncio
import base64
import time
from dataclasses import dataclass

import msgspec

from gatewright.bus.identities import OBSERVER, Credential
from gatewright.bus.jetstream.api import MISSING, StreamInfoReply, StreamNamesReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.processes import Process, ask_processes, reported_dead_letters
from gatewright.bus.jetstream.queue_depths import Offered, QueueDepth, offered, open_dead_letters, queue_depth
from gatewright.bus.topology import Consumer, consumers, intake_publisher, stream_names
from gatewright.errors import BusError
from gatewright.foreign_documents import read_json


class _Claims(msgspec.Struct):
    exp: int = 0


@dataclass(frozen=True, slots=True)
class StreamLook:
    """A stream. ``fullness``: share of its limits, 0 to 1; ``behind``: servers that lag or are away.

    ``clustered``: its server is one of several; ``leader``: one of them leads the stream.
    """

    name: str
    messages: int
    size: int
    fullness: float
    replicas: int
    behind: tuple[str, ...] = ()
    clustered: bool = False
    leader: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLook:
    """The collected state. ``missing``: absent streams and queues. ``expires``: of the requester's own credential, or 0."""

    server: str
    max_payload: int
    offered: Offered | None
    round_trip: float
    processes: tuple[Process, ...]
    streams: tuple[StreamLook, ...]
    queues: tuple[QueueDepth, ...]
    missing: tuple[str, ...]
    dead_letters: int
    expires: int = 0
    now: float = 0.0


async def ask_cluster(connection: Connection, pools: tuple[str, ...]) -> ClusterLook:
    """Query once, as an operator or an observer. Raises BusError if the bus cannot serve, or refuses this identity."""
    began = time.monotonic()
    room = await offered(connection)
    trip = time.monotonic() - began
    listed = await connection.api("STREAM.NAMES", {}, StreamNamesReply)
    names = tuple(dict.fromkeys((*stream_names(connection.address.partitions), *(listed.streams or ()))))
    publishers = [publisher for name in names if (publisher := intake_publisher(name)) is not None]
    credential = connection.credential
    reads = credential is None or credential.identity != OBSERVER
    processes, streams, queues, letters = await asyncio.gather(
        ask_processes(connection),
        asyncio.gather(*(_stream(connection, name) for name in names)),
        asyncio.gather(*(_queue(connection, queue, reads) for queue in consumers(pools, publishers))),
        open_dead_letters(connection) if reads else _none(),
    )
    return ClusterLook(
        server=str(connection.client.connected_server_version),
        max_payload=connection.client.max_payload,
        offered=room,
        round_trip=trip,
        processes=processes,
        streams=tuple(each for each in streams if isinstance(each, StreamLook)),
        queues=tuple(each for each in queues if isinstance(each, QueueDepth)),
        missing=tuple(each for each in (*streams, *queues) if isinstance(each, str)),
        dead_letters=reported_dead_letters(processes) if letters is None else letters,
        expires=_expires(credential),
        now=time.time(),
    )


async def _stream(connection: Connection, name: str) -> StreamLook | str:
    try:
        found = await connection.api(f"STREAM.INFO.{name}", {}, StreamInfoReply)
    except BusError as error:
        if error.reason in MISSING:
            return f"stream {name}"
        raise
    config, state, cluster = found.config, found.state, found.cluster
    parts = [state.bytes / config.max_bytes if config.max_bytes > 0 else 0.0]
    parts.append(state.messages / config.max_msgs if config.max_msgs > 0 else 0.0)
    peers = cluster.replicas if cluster is not None else ()
    return StreamLook(
        name,
        state.messages,
        state.bytes,
        max(parts),
        config.num_replicas,
        tuple(peer.name for peer in peers if peer.offline or not peer.current),
        clustered=cluster is not None and bool(cluster.name),
        leader=cluster is None or not cluster.name or bool(cluster.leader),
    )


async def _none() -> None:
    """An observer counts no dead letters: that takes the subjects of a stream, which no observer may list."""


async def _queue(connection: Connection, queue: Consumer, reads_messages: bool) -> QueueDepth | str:
    try:
        return await queue_depth(connection, queue, reads_messages=reads_messages)
    except BusError as error:
        if error.reason in MISSING:
            return f"queue {queue.durable}"
        raise


def _expires(credential: Credential | None) -> int:
    """Return when the requester's signed token expires, in seconds since 1970; 0: never."""
    if credential is None or not credential.token:
        return 0
    _, _, rest = credential.token.partition(".")
    body = rest.partition(".")[0]
    try:
        return read_json(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), _Claims).exp
    except ValueError:
        return 0
