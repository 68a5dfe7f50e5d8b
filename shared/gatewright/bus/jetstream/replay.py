"""Replay of a JetStream stream: stored messages in order and without gaps, then new ones.

It uses an ordered consumer: ephemeral, in the server's memory, without acknowledgements. When a message is missing or the
consumer is gone (a restarted server forgets it), a new one starts after the last message that was yielded.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self

from nats.aio.msg import Msg

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import PATIENCE_SECONDS, Connection, api_subject
from gatewright.bus.jetstream.pull import NO_CONSUMER, Pull
from gatewright.bus.port import Message
from gatewright.errors import BusError

_BATCH = 64
#: The server forgets a consumer that has not been pulled from for so long.
_IDLE_NANOSECONDS = 20_000_000_000


class _CreateReply(ApiReply):
    num_pending: int = 0


async def replay(
    connection: Connection, stream: str, pattern: str, *, follow: bool, after: int = 0
) -> AsyncGenerator[Message, None]:
    """Yield every message beyond ``after`` that ``pattern`` matches; without ``follow``, end with the last one stored now.

    Raises BusError when the stream cannot be read; with ``follow`` it waits for a server that is away.
    """
    patience = math.inf if follow else PATIENCE_SECONDS
    seen = after
    left: int | None = None  # messages that existed at the start and are still outstanding
    while True:
        async with _OrderedConsumer(connection, stream, pattern, seen + 1, patience) as consumer:
            left = consumer.waiting if left is None else min(left, consumer.waiting)
            while follow or left > 0:
                raw = await consumer.next()
                if raw is None:
                    break
                left -= 1
                seen = raw.metadata.sequence.stream
                yield Message(raw.subject, raw.data, raw.headers or {}, seen, raw.metadata.timestamp.timestamp())
        if not follow and left <= 0:
            return


class _OrderedConsumer:
    """A consumer from ``start`` on, usable until the first irregularity. ``patience``: seconds between two messages.

    ``waiting`` is the number of messages that were available when it was created.
    """

    def __init__(self, connection: Connection, stream: str, pattern: str, start: int, patience: float) -> None:
        self._connection = connection
        self._stream = stream
        self._pattern = pattern
        self._start = start
        self._patience = patience
        self._name = f"{connection.name}-replay-{connection.unique()}"
        self._pull = Pull(connection, stream, self._name, _BATCH)
        self._next_number = 1
        self.waiting = 0

    async def __aenter__(self) -> Self:
        config = {
            "name": self._name,
            "filter_subject": self._pattern,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._start,
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _IDLE_NANOSECONDS,
        }
        call = f"CONSUMER.CREATE.{self._stream}.{self._name}.{self._pattern}"
        body = {"stream_name": self._stream, "config": config}
        reply = await self._connection.patiently(lambda: self._connection.api(call, body, _CreateReply), self._patience)
        self.waiting = reply.num_pending
        return self

    async def next(self) -> Msg | None:
        """Return the next message; None if this consumer can no longer deliver it. Raises BusError after a timeout."""
        try:
            raw = await self._pull.next(self._patience)
        except BusError as error:
            if error.reason == NO_CONSUMER:
                return None
            raise
        if raw is None:
            raise BusError(f"the replay of {self._pattern} stopped: no message arrived in time")
        if raw.metadata.sequence.consumer != self._next_number:
            return None
        self._next_number += 1
        return raw

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pull.close()
        with contextlib.suppress(BusError):
            await self._connection.send(api_subject(f"CONSUMER.DELETE.{self._stream}.{self._name}"), b"")
