"""Backup of streams to files and back, by the NATS server's own snapshots: with consumers, byte for byte, while in use.

The content of a snapshot is the server's format (an archive of its store) and stays unchanged. Only the provisioner may
create one. A snapshot is restored only if no stream of that name exists, so nothing is overwritten.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec
from nats.aio.msg import Msg

from gatewright.bus.jetstream.api import MISSING, ApiReply, StreamInfoReply, StreamState, decode_reply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.rights import known_publishers
from gatewright.bus.jetstream.setup import check_partitions
from gatewright.bus.topology import (
    LEDGER,
    LOCK_STREAM,
    intake_publisher,
    ledger_stream,
    publisher_streams,
    stream_names,
    uploader_of,
)
from gatewright.errors import BusError, MalformedError

#: After the intakes of all publishers: the other queues, then who holds which paths, then the ledger, then what it refers to.
#: What a queue holds that the ledger has heard of already is found to be a repetition; what the ledger refers to must be there.
SNAPSHOT_ORDER: Final = ("TASKS", "RESULTS", "EXHAUSTED", LOCK_STREAM, LEDGER, "ARTIFACTS", "DEAD")

_CHUNK_BYTES = 256 << 10
#: Seconds of silence after which a server that sends a snapshot, or takes one, is given up.
_SILENCE = 30.0
#: Seconds that a server may take to read what it was given back.
_RECOVERY = 600.0
_PATIENCE = 15.0
_END_OF_SNAPSHOT = "204"


class _SnapshotReply(ApiReply):
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    state: dict[str, Any] = msgspec.field(default_factory=dict)


class _RestoreReply(ApiReply):
    deliver_subject: str = ""


class StreamSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot's metadata. ``last_sequence``: of the stream when the snapshot began; it may hold slightly more.

    ``sha256`` and ``size`` describe its bytes; ``config`` and ``state`` come from the server and are returned to it on
    restore.
    """

    stream: str
    sha256: str
    size: int
    messages: int
    last_sequence: int
    config: dict[str, Any]
    state: dict[str, Any]


async def stored_streams(connection: Connection) -> tuple[str, ...]:
    """Return every stream of a system, in backup order.

    Raises BusError, ConfigurationError (``ledger_partitions_differ``): a part of the ledger would be left out.
    """
    await check_partitions(connection)
    known = [
        stream.name for publisher in await known_publishers(connection, _PATIENCE) for stream in publisher_streams(publisher)
    ]
    partitions = connection.address.partitions
    names = dict.fromkeys((*stream_names(partitions), *known))
    ledger = [ledger_stream(number, partitions).name for number in range(1, partitions)]
    intakes = sorted(name for name in names if intake_publisher(name) is not None)
    uploads = sorted(name for name in names if uploader_of(name) is not None)
    before = SNAPSHOT_ORDER.index("ARTIFACTS")
    return (*intakes, *SNAPSHOT_ORDER[:before], *ledger, *uploads, *SNAPSHOT_ORDER[before:])


async def existing(connection: Connection, stream: str) -> tuple[int, int] | None:
    """Messages and last sequence of a stream, or None where there is none. Raises BusError."""
    try:
        reply = await connection.patiently(lambda: connection.api(f"STREAM.INFO.{stream}", {}, StreamInfoReply), _PATIENCE)
    except BusError as error:
        if error.reason in MISSING:
            return None
        raise
    return reply.state.messages, reply.state.last_seq


async def take_snapshot(connection: Connection, stream: str, target: BinaryIO) -> StreamSnapshot:
    """Write a snapshot of ``stream`` to ``target``. Raises BusError (``snapshot_interrupted``: not all of it came), OSError."""
    chunks: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = str(connection.client.new_inbox())
    subscription = await connection.subscribe(inbox, chunks.put)
    try:
        await connection.flush()
        begun = await connection.api(
            f"STREAM.SNAPSHOT.{stream}",
            {"deliver_subject": inbox, "no_consumers": False, "chunk_size": _CHUNK_BYTES},
            _SnapshotReply,
            timeout=_SILENCE,
        )
        digest, size = hashlib.sha256(), 0
        while data := await _chunk(connection, chunks, stream):
            await asyncio.to_thread(target.write, data)
            digest.update(data)
            size += len(data)
    finally:
        await subscription.unsubscribe()
    known = msgspec.convert(begun.state, type=StreamState)
    return StreamSnapshot(
        stream=stream,
        sha256=digest.hexdigest(),
        size=size,
        messages=known.messages,
        last_sequence=known.last_seq,
        config=begun.config,
        state=begun.state,
    )


async def _chunk(connection: Connection, chunks: asyncio.Queue[Msg], stream: str) -> bytes:
    """Return the next chunk, empty at the end. The server continues after each acknowledged chunk."""
    try:
        async with asyncio.timeout(_SILENCE):
            message = await chunks.get()
    except TimeoutError:
        raise BusError(f"the snapshot of {stream} stopped coming", code="snapshot_interrupted") from None
    if not message.data:
        status = (message.headers or {}).get("Status", _END_OF_SNAPSHOT)
        if status != _END_OF_SNAPSHOT:
            words = f"the server ended the snapshot of {stream} before it was whole ({status})"
            raise BusError(words, code="snapshot_interrupted")
    elif message.reply:
        await connection.send(message.reply, b"")
    return message.data


async def give_back(
    connection: Connection, snapshot: StreamSnapshot, source: BinaryIO, changed: Mapping[str, Any] | None = None
) -> int:
    """Restore a stream from its snapshot; return the number of its messages.

    ``changed``: stream settings that replace those of the snapshot. Raises BusError with the server's reason for a refusal.
    """
    wanted = {"config": {**snapshot.config, **(changed or {})}, "state": snapshot.state}
    call = f"STREAM.RESTORE.{snapshot.stream}"
    place = (await connection.api(call, wanted, _RestoreReply, timeout=_SILENCE)).deliver_subject
    if not place.startswith("$JS.SNAPSHOT.RESTORE."):
        raise MalformedError(f"the server wants the snapshot of {snapshot.stream} sent to {place!r}", code="bad_subject")
    for data in _read_chunks(source):
        answer = await connection.request(place, data, timeout=_SILENCE)
        if answer.data:
            decode_reply(answer.data, ApiReply, call)  # the reply is only an acknowledgement or a refusal
    last = await connection.request(place, b"", timeout=_RECOVERY)
    return decode_reply(last.data, StreamInfoReply, call).state.messages


def _read_chunks(source: BinaryIO) -> Iterator[bytes]:
    while data := source.read(_CHUNK_BYTES):
        yield data
