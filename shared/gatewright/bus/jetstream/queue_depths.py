"""Read-only depth of the work queues, and the storage that the server offers and uses.

All figures, times included, come from the server, so that differing clocks of hosts do not distort ages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from gatewright.bus.jetstream.api import ApiReply, StreamInfoReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import MessageReply
from gatewright.bus.topology import DEAD_LETTER_DECIDER, Consumer, StreamSpec, dead_subject
from gatewright.errors import BusError

#: No such message: it was taken between two calls.
_NO_MESSAGE = "jetstream_10037"
_DEAD = "DEAD"
#: Value of a missing time in an answer.
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The depth of a queue. ``waiting``: not delivered yet; ``in_hand``: delivered, not settled; ``pulls``: open requests for
    work.

    ``oldest``: seconds that the oldest message has waited, 0 when none waits; ``at_most``: this is an upper bound.
    """

    queue: Consumer
    waiting: int
    in_hand: int
    pulls: int
    paused: bool
    oldest: float
    at_most: bool = False


class _Place(msgspec.Struct):
    stream_seq: int = 0


class _QueueReply(ApiReply):
    ts: datetime = _NEVER
    delivered: _Place = msgspec.field(default_factory=_Place)
    num_pending: int = 0
    num_ack_pending: int = 0
    num_waiting: int = 0
    paused: bool = False


async def queue_depth(connection: Connection, queue: Consumer, *, reads_messages: bool = True) -> QueueDepth:
    """Return the depth of one queue. Raises BusError, with a reason of ``answers.MISSING`` if it does not exist.

    ``reads_messages``: without that right, the age of the whole stream's oldest message is returned as an upper bound.
    """
    found = await connection.api(f"CONSUMER.INFO.{queue.stream}.{queue.durable}", {}, _QueueReply)
    since = None
    if found.num_pending and reads_messages:
        since = await _oldest(connection, queue, found.delivered.stream_seq + 1)
    elif found.num_pending:
        since = await _oldest_of_stream(connection, queue.stream)
    return QueueDepth(
        queue,
        found.num_pending,
        found.num_ack_pending,
        found.num_waiting,
        found.paused,
        max(0.0, (found.ts - since).total_seconds()) if since is not None else 0.0,
        at_most=not reads_messages,
    )


async def _oldest_of_stream(connection: Connection, stream: str) -> datetime | None:
    """Return when the oldest message of a stream was stored, in any queue and state; None for an empty stream."""
    state = (await connection.api(f"STREAM.INFO.{stream}", {}, StreamInfoReply)).state
    return state.first_ts if state.messages else None


async def _oldest(connection: Connection, queue: Consumer, sequence: int) -> datetime | None:
    """Return when the queue's first message from ``sequence`` on was stored; None if there is none left."""
    try:
        reply = await connection.api(
            f"STREAM.MSG.GET.{queue.stream}", {"seq": sequence, "next_by_subj": queue.subject}, MessageReply
        )
    except BusError as error:
        if error.reason == _NO_MESSAGE:
            return None
        raise
    return reply.message.time if reply.message is not None else None


async def open_dead_letters(connection: Connection) -> int:
    """Dead letters that no operator has decided about. Letters and decisions are both kept for good. Raises BusError."""
    reply = await connection.api(f"STREAM.INFO.{_DEAD}", {"subjects_filter": dead_subject(">")}, StreamInfoReply)
    found = dict(reply.state.subjects or {})
    decided = found.pop(dead_subject(DEAD_LETTER_DECIDER), 0)
    return max(0, sum(found.values()) - decided)


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
