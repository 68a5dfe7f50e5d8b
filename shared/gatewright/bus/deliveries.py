"""Work-queue deliveries over JetStream: taking one at a time, and settling it."""

from __future__ import annotations

from nats.aio.msg import Msg

from gatewright.bus.answers import translated
from gatewright.bus.connection import Connection
from gatewright.bus.port import Message
from gatewright.bus.pull import Pull
from gatewright.bus.topology import Consumer

_ACK = b"+ACK"
_NAK = b"-NAK"
_TERM = b"+TERM"
_PROGRESS = b"+WPI"


class JetStreamDelivery:
    """One delivery. The first settlement counts; later ones, and signs of life after it, do nothing."""

    def __init__(self, connection: Connection, raw: Msg) -> None:
        with translated("delivery"):
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
        self._pull = Pull(connection, consumer.stream, consumer.durable, 1, self._give_back)

    async def next(self, timeout: float) -> JetStreamDelivery | None:  # noqa: ASYNC109
        raw = await self._pull.next(timeout)
        return None if raw is None else JetStreamDelivery(self._connection, raw)

    async def take(self) -> JetStreamDelivery | None:
        raw = await self._pull.take()
        return None if raw is None else JetStreamDelivery(self._connection, raw)

    async def withdraw(self) -> JetStreamDelivery | None:
        raw = await self._pull.withdraw()
        return None if raw is None else JetStreamDelivery(self._connection, raw)

    async def close(self) -> None:
        await self._pull.close()

    async def _give_back(self, raw: Msg) -> None:
        await self._connection.send(raw.reply, _NAK)
