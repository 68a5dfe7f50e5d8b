"""The storage that a NATS server offers and uses, as far as the caller may read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from gatewright.bus.jetstream.api import ApiReply, StreamInfoReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.topology import StreamSpec


class _Limits(msgspec.Struct):
    max_storage: int = -1


class _AccountReply(ApiReply):
    storage: int = 0
    limits: _Limits = msgspec.field(default_factory=_Limits)


@dataclass(frozen=True, slots=True)
class Offered:
    """Bytes. ``limit`` is None where the account has none: then the server's volume is what bounds it."""

    used: int
    limit: int | None


async def offered(connection: Connection) -> Offered:
    """Return the used and available storage of this connection's account. Raises BusError; needs an operator's rights."""
    reply = await connection.api("INFO", {}, _AccountReply)
    return Offered(reply.storage, reply.limits.max_storage if reply.limits.max_storage >= 0 else None)


async def fullness(connection: Connection, stream: str) -> float:
    """Return how full a stream is, from 0 to 1, the higher of bytes and messages; 0 without a limit. Raises BusError."""
    reply = await connection.api(f"STREAM.INFO.{stream}", {}, StreamInfoReply)
    taken = ((reply.state.bytes, reply.config.max_bytes), (reply.state.messages, reply.config.max_msgs))
    return max((used / limit for used, limit in taken if limit > 0), default=0.0)


def reserved_bytes(streams: Sequence[StreamSpec]) -> tuple[int, int]:
    """Bytes that the streams reserve: as they are meant to be, and at the least."""
    bounded = [stream for stream in streams if stream.least_bytes > 0]
    return sum(stream.max_bytes for stream in bounded), sum(stream.least_bytes for stream in bounded)
