"""Work-queue deliveries over JetStream: take one at a time, settle it, return messages that nothing waits for.

A message that arrives while no task waits is kept for a moment, and is next when the process takes another. Otherwise it is
returned to the queue, for a process that waits, or for one that is busy but still has an open request. Each return costs
one delivery. Each time, the message is therefore kept a little longer, until all requests of that moment have ended. When
the next delivery would be the last, the message is kept and handled next.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

from nats.aio.msg import Msg

from gatewright.bus.jetstream.api import translate_errors
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.pull import Pull
from gatewright.bus.port import Message
from gatewright.bus.topology import Consumer, handled_deliveries
from gatewright.errors import BusError

_ACK = b"+ACK"
_NAK = b"-NAK"
_TERM = b"+TERM"
_PROGRESS = b"+WPI"
#: Seconds to keep an unrequested message, by its delivery number. Their sum exceeds the life of any open request.
_KEPT_SECONDS = (0.02, 0.08, 0.24, 0.4)


class JetStreamDelivery:
    """One delivery. The first settlement applies; later settlements and progress reports do nothing."""

    def __init__(self, connection: Connection, raw: Msg) -> None:
        with translate_errors("delivery"):
            facts = raw.metadata
        self.message = Message(raw.subject, raw.data, raw.headers or {}, facts.sequence.stream, facts.timestamp.timestamp())
        self.attempts = facts.num_delivered
        self._connection = connection
        self._reply = raw.reply
        self._settled = False

    async def ack(self) -> None:
        await self._settle(_ACK)

    async def nak(self, delay: float = 0.0) -> None:
        await self._settle(b'%b {"delay": %d}' % (_NAK, int(delay * 1e9)) if delay > 0 else _NAK)

    async def term(self) -> None:
        await self._settle(_TERM)

    async def in_progress(self) -> None:
        if not self._settled:
            await self._connection.send(self._reply, _PROGRESS)

    async def _settle(self, verdict: bytes) -> None:
        if not self._settled:
            self._settled = True
            await self._connection.send(self._reply, verdict)


class JetStreamSubscription:
    """A standing pull on a durable consumer, one delivery at a time."""

    def __init__(self, connection: Connection, consumer: Consumer) -> None:
        self._connection = connection
        self._consumer = consumer
        self._pull = Pull(connection, consumer.stream, consumer.durable, 1, self._came_uncalled_for)
        self._kept: tuple[JetStreamDelivery, asyncio.Task[None]] | None = None

    async def next(self, timeout: float) -> JetStreamDelivery | None:  # noqa: ASYNC109
        if self._kept is not None:
            return self._take_kept()
        raw = await self._pull.next(timeout)
        return None if raw is None else JetStreamDelivery(self._connection, raw)

    async def take(self) -> JetStreamDelivery | None:
        if self._kept is not None:
            return self._take_kept()
        raw = await self._pull.take()
        return None if raw is None else JetStreamDelivery(self._connection, raw)

    async def close(self) -> None:
        await self._pull.close()
        if (kept := self._take_kept()) is not None:
            with contextlib.suppress(BusError):  # the server redelivers it after ack_wait
                await kept.nak()

    async def _came_uncalled_for(self, raw: Msg) -> None:
        delivery = JetStreamDelivery(self._connection, raw)
        if self._kept is not None:
            await delivery.nak()
            return
        last = delivery.attempts >= handled_deliveries(self._consumer.max_deliver)
        seconds = math.inf if last else _KEPT_SECONDS[min(delivery.attempts, len(_KEPT_SECONDS)) - 1]
        self._kept = delivery, asyncio.get_running_loop().create_task(self._extend_delivery(delivery, seconds))

    async def _extend_delivery(self, delivery: JetStreamDelivery, seconds: float) -> None:
        while seconds > 0:
            pause = min(seconds, self._consumer.ack_wait / 3)
            await asyncio.sleep(pause)
            seconds -= pause
            if seconds <= 0:
                self._kept = None
            with contextlib.suppress(BusError):  # the server redelivers it after ack_wait
                await (delivery.in_progress() if seconds > 0 else delivery.nak())

    def _take_kept(self) -> JetStreamDelivery | None:
        kept, self._kept = self._kept, None
        if kept is None:
            return None
        kept[1].cancel()
        return kept[0]
