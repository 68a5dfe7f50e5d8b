"""A look at the work queues from outside: how much waits, how long, and whether a worker asks for it. It changes nothing.

All figures are the server's own, its clock included, so that clocks of hosts that differ do not make messages old.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from gatewright.bus.jetstream.api import ApiReply, StreamInfoReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import MessageReply
from gatewright.bus.topology import DEAD_LETTER_DECIDER, Consumer, dead_subject
from gatewright.errors import BusError

#: No message there: it was taken between two looks.
_NO_MESSAGE = "jetstream_10037"
_DEAD = "DEAD"
#: What an answer without a time says.
_NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """``waiting``: not delivered yet; ``in_hand``: delivered, not settled; ``pulls``: requests for work that lie open.

    ``oldest``: seconds that the oldest waiting message has waited, 0 when none waits; ``at_most``: it is not longer than that.
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
    """How it stands with one queue. Raises BusError, with a reason of ``answers.MISSING`` when it does not exist.

    ``reads_messages``: of an identity that may not, the age is that of the oldest message of the whole stream, at most.
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
    """When the oldest message that a stream holds was stored, in whatever queue it lies, or in hand; None for an empty one."""
    state = (await connection.api(f"STREAM.INFO.{stream}", {}, StreamInfoReply)).state
    return state.first_ts if state.messages else None


async def _oldest(connection: Connection, queue: Consumer, sequence: int) -> datetime | None:
    """When the first message of the queue from ``sequence`` on was stored; None when there is none any more."""
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
