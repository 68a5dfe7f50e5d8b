"""A standing pull request on one JetStream consumer, and its supervision.

While ``next`` waits, one short request is open at the server and is renewed when it ends, so that a message arrives as soon
as it is stored. A request cannot be withdrawn: a server that has chosen it sends the message, and if the inbox is gone, the
message is lost until ``ack_wait`` is over. The inbox therefore lives as long as the pull, an unneeded request ends by
itself, and a message that it still brings goes to ``give_back``. This module does not know the use of the messages (a work
queue, a replay).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Self

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gatewright.bus.jetstream.api import MISSING, ApiReply, translate_errors
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection, Receiver, api_subject
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.errors import BusError


class Inbox:
    """Receives what is sent to any token below ``subject``. Make it with ``open``."""

    def __init__(self, connection: Connection, subject: str, subscription: Subscription) -> None:
        self.subject = subject
        self._connection = connection
        self._subscription = subscription

    @classmethod
    async def open(cls, connection: Connection, receiver: Receiver) -> Self:
        """Subscribe a new inbox and pass each message to ``receiver``, also after a reconnect. Raises BusError."""
        subject = connection.client.new_inbox()
        return cls(connection, subject, await connection.subscribe(f"{subject}.*", receiver))

    async def leave(self) -> None:
        """Give the inbox up after its receiver has seen all that the server sent there. Raises BusError."""
        if not self._connection.connected:
            await self.abandon()
            return
        with translate_errors("leave an inbox"):
            await self._subscription.drain()  # type: ignore[no-untyped-call] # nats-py left it untyped

    async def abandon(self) -> None:
        """Unsubscribe immediately. Raises BusError."""
        with translate_errors("abandon an inbox"):
            await self._subscription.unsubscribe()


#: Reason of the error when the consumer is not, or no longer, there.
NO_CONSUMER: Final = "consumer_missing"
#: How long a request stays open at the server, and so how long an unneeded one can still bring a message.
OPEN_SECONDS: Final = 0.5

_NANOSECONDS = 1_000_000_000
#: Seconds that the server's notice of an ended request may take.
_WORD_SECONDS = 0.25
#: Requests in a row without a notice after which the server is assumed to have lost the inbox.
_SILENT = 2
_PAUSE_SECONDS = 0.2


class Pull:
    """A pull of at most ``batch`` messages at a time. One task at a time may call ``next``.

    ``give_back`` receives a message that arrives while no task waits in ``next``. Without it, as for a private consumer,
    such messages wait for the next call.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        consumer: str,
        batch: int,
        give_back: Callable[[Msg], Awaitable[None]] | None = None,
    ) -> None:
        self._connection = connection
        self._consumer = f"{stream}.{consumer}"
        self._batch = batch
        self._give_back = give_back
        self._question = msgspec.json.encode({"batch": batch, "expires": int(OPEN_SECONDS * _NANOSECONDS)})
        self._arrived: deque[Msg] = deque()
        self._changed = asyncio.Event()
        self._wanted = give_back is None
        self._inbox: Inbox | None = None
        self._former: Inbox | None = None
        self._requests = 0
        self._awaited = 0  # what the open request may still bring; 0: none is open
        self._ends = 0.0
        self._silent = 0
        self._not_before = 0.0
        self._doubtful = False
        self._peek = Peek(connection, self._consumer, self._return)
        connection.watch(self._changed.set)

    async def next(self, timeout: float) -> Msg | None:  # noqa: ASYNC109 - it bounds one wait, not the caller's work
        """The next message, or None after ``timeout`` seconds.

        Raises BusError, with reason ``NO_CONSUMER`` when the consumer is not there.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        self._wanted = True
        try:
            while not self._arrived:
                self._connection.check()
                look_again = await self._keep_request_open(clock())
                if clock() >= deadline:
                    return None
                await self._await_change(min(deadline, look_again))
            return self._arrived.popleft()
        finally:
            await self._want_no_more()

    async def take(self) -> Msg | None:
        """Return a message that is available now; None if there is none or the server is away."""
        return await self._peek.take()

    async def close(self) -> None:
        """Stop once no message can arrive; return the messages that were not taken. Safe to call twice.

        If the connection is hurried, stop immediately: the server redelivers outstanding messages after ``ack_wait``.
        """
        self._connection.unwatch(self._changed.set)
        clock = asyncio.get_running_loop().time
        if self._give_back is not None:
            await self._want_no_more()
            while self._awaited and self._connection.patient and clock() < self._ends:
                await self._await_change(self._ends)
        self._awaited = 0
        for inbox in (self._inbox, self._former):
            if inbox is not None:
                with contextlib.suppress(BusError):
                    await inbox.abandon()
        self._inbox = self._former = None
        await self._peek.close()

    async def _want_no_more(self) -> None:
        """Return to the queue all messages that were not taken and all that still arrive."""
        if self._give_back is None:
            return
        self._wanted = False
        while self._arrived:
            await self._return(self._arrived.popleft())

    async def _await_change(self, until: float) -> None:
        """Wait for something to happen, not beyond a moment of the loop's clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if until == math.inf else until):
                await self._changed.wait()
        self._changed.clear()

    async def _keep_request_open(self, now: float) -> float:
        """Keep a request open; return the time of the next check."""
        if not self._connection.connected:
            return math.inf  # the reconnect wakes us
        if self._awaited and now >= self._ends:
            self._awaited = 0
            self._silent += 1
            if self._silent >= _SILENT:
                await self._change_inbox()
        if not self._awaited and now >= self._not_before and await self._consumer_exists(now):
            await self._request_messages(now)
        return self._ends if self._awaited else self._not_before

    async def _change_inbox(self) -> None:
        """The server may have forgotten the inbox, or be slow: what it sends to the former one is received as before."""
        self._silent = 0
        former, self._former, self._inbox = self._former, self._inbox, None
        if former is not None:
            with contextlib.suppress(BusError):
                await former.abandon()

    async def _request_messages(self, now: float) -> None:
        if self._inbox is None:
            self._inbox = await Inbox.open(self._connection, self._receive)
        self._requests += 1
        self._awaited = self._batch
        self._ends = now + OPEN_SECONDS + _WORD_SECONDS
        await self._connection.send(
            api_subject(f"CONSUMER.MSG.NEXT.{self._consumer}"), self._question, reply=f"{self._inbox.subject}.{self._requests}"
        )

    async def _consumer_exists(self, now: float) -> bool:
        """Return whether the consumer exists, asking the server only after a refused request; False while it cannot answer."""
        if not self._doubtful:
            return True
        try:
            await self._connection.api(f"CONSUMER.INFO.{self._consumer}", {}, ApiReply)
        except BusError as error:
            if error.reason in MISSING:
                raise BusError(f"the consumer {self._consumer} does not exist", code=NO_CONSUMER) from error
            if error.reason not in (NO_ANSWER, NO_RESPONDERS):
                raise
            self._not_before = now + _PAUSE_SECONDS
            return False
        self._doubtful = False
        return True

    async def _receive(self, message: Msg) -> None:
        if message.reply.startswith(ACK_PREFIX):
            self._silent = 0
            self._awaited = max(0, self._awaited - 1)
            if self._wanted:
                self._arrived.append(message)
            else:
                await self._return(message)
        elif message.subject.endswith(f".{self._requests}"):
            self._silent = 0
            self._note(message)
        self._changed.set()

    def _note(self, message: Msg) -> None:
        """Process the server's notice that the open request has ended."""
        self._awaited = 0
        if (message.headers or {}).get("Status") not in ("404", "408"):
            # The consumer is gone, its leader is moving, or JetStream has not started yet.
            self._doubtful = True
            self._not_before = asyncio.get_running_loop().time() + _PAUSE_SECONDS

    async def _return(self, message: Msg) -> None:
        if self._give_back is not None:
            with contextlib.suppress(BusError):  # the server redelivers it after ack_wait
                await self._give_back(message)


# A single look into a JetStream consumer: take a message that is available now, without waiting. It has an inbox of its own.
# A message arrives under its stored subject, which does not show which request it answers. So one request is open at a time,
# and a message that arrives while none is open is returned.

#: Prefix of the subjects on which deliveries are settled.
ACK_PREFIX: Final = "$JS.ACK."
_WHAT_IS_THERE = msgspec.json.encode({"batch": 1, "no_wait": True})


class Peek:
    """``give_back`` is called for a message that came too late. One task at a time calls ``take``."""

    def __init__(self, connection: Connection, consumer: str, give_back: Callable[[Msg], Awaitable[None]]) -> None:
        self._connection = connection
        self._call = api_subject(f"CONSUMER.MSG.NEXT.{consumer}")
        self._give_back = give_back
        self._inbox: Inbox | None = None
        self._asked = 0
        self._answer: asyncio.Future[Msg | None] | None = None

    async def take(self) -> Msg | None:
        """Return a message that is available now; None if there is none or the server does not answer.

        Raises BusError when closed.
        """
        self._connection.check()
        if not self._connection.connected:
            return None
        if self._inbox is None:
            self._inbox = await Inbox.open(self._connection, self._receive)
        self._asked += 1
        self._answer = asyncio.get_running_loop().create_future()
        try:
            await self._connection.send(self._call, _WHAT_IS_THERE, reply=f"{self._inbox.subject}.{self._asked}")
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._answer
        except TimeoutError:
            return None
        finally:
            self._answer = None

    async def close(self) -> None:
        """Give back what is still on its way. Safe to call twice."""
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            with contextlib.suppress(BusError):
                await inbox.leave()

    async def _receive(self, message: Msg) -> None:
        delivered = message.reply.startswith(ACK_PREFIX)
        if not delivered and not message.subject.endswith(f".{self._asked}"):
            return
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message if delivered else None)
        elif delivered:
            await self._give_back(message)
