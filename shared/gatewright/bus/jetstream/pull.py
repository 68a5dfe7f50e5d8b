"""A standing pull request on one JetStream consumer, and the watch over it.

While ``next`` is called one short request lies open at the server and is renewed as it ends, so that a message comes the moment
it is stored. Nothing takes a request back: a server that has chosen one sends the message, whatever it hears meanwhile, and
where the inbox is gone the message is lost until ``ack_wait`` is over. So the inbox lives as long as the pull, a request that
is no longer wanted ends by itself, and what it brings after all is handed to ``give_back``. What the messages are for (a work
queue, a replay) is not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from nats.aio.msg import Msg

from gatewright.bus.jetstream.api import MISSING, ApiReply
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection, api_subject
from gatewright.bus.jetstream.inbox import Inbox
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.errors import BusError

#: Reason of the error when the consumer is not, or no longer, there.
NO_CONSUMER: Final = "consumer_missing"
#: For how long a request lies open at the server: so long may one that is not wanted any more still bring a message.
OPEN_SECONDS: Final = 0.5

_NANOSECONDS = 1_000_000_000
#: The server's word that a request has ended may take so long.
_WORD_SECONDS = 0.25
#: Requests in a row without a word, after which the inbox is taken for forgotten.
_SILENT = 2
_PAUSE_SECONDS = 0.2


class Pull:
    """``batch`` messages at most are on their way at a time. One task at a time calls ``next``.

    ``give_back`` is called for a message that comes while no task waits in ``next``. Without it, as for a consumer of our own,
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
                look_again = await self._tend(clock())
                if clock() >= deadline:
                    return None
                await self._change(min(deadline, look_again))
            return self._arrived.popleft()
        finally:
            await self._want_no_more()

    async def take(self) -> Msg | None:
        """What there is at this moment; None when there is nothing, or when the server is away."""
        return await self._peek.take()

    async def close(self) -> None:
        """Stop, once nothing can come any more; what came and was not taken is given back. Safe to call twice.

        With a connection in a hurry at once: what the open request may still bring comes again after ``ack_wait``.
        """
        self._connection.unwatch(self._changed.set)
        clock = asyncio.get_running_loop().time
        if self._give_back is not None:
            await self._want_no_more()
            while self._awaited and self._connection.patient and clock() < self._ends:
                await self._change(self._ends)
        self._awaited = 0
        for inbox in (self._inbox, self._former):
            if inbox is not None:
                with contextlib.suppress(BusError):
                    await inbox.forsake()
        self._inbox = self._former = None
        await self._peek.close()

    async def _want_no_more(self) -> None:
        """What comes from now on is given back, and so is what has come and was not taken."""
        if self._give_back is None:
            return
        self._wanted = False
        while self._arrived:
            await self._return(self._arrived.popleft())

    async def _change(self, until: float) -> None:
        """Wait for something to happen, not beyond a moment of the loop's clock."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(None if until == math.inf else until):
                await self._changed.wait()
        self._changed.clear()

    async def _tend(self, now: float) -> float:
        """See that a request lies open; returns the time at which to look again."""
        if not self._connection.connected:
            return math.inf  # the reconnect wakes us
        if self._awaited and now >= self._ends:
            self._awaited = 0
            self._silent += 1
            if self._silent >= _SILENT:
                await self._change_inbox()
        if not self._awaited and now >= self._not_before and await self._consumer_exists(now):
            await self._ask(now)
        return self._ends if self._awaited else self._not_before

    async def _change_inbox(self) -> None:
        """The server may have forgotten the inbox, or be slow: what it sends to the former one is received as before."""
        self._silent = 0
        former, self._former, self._inbox = self._former, self._inbox, None
        if former is not None:
            with contextlib.suppress(BusError):
                await former.forsake()

    async def _ask(self, now: float) -> None:
        if self._inbox is None:
            self._inbox = await Inbox.open(self._connection, self._receive)
        self._requests += 1
        self._awaited = self._batch
        self._ends = now + OPEN_SECONDS + _WORD_SECONDS
        await self._connection.send(
            api_subject(f"CONSUMER.MSG.NEXT.{self._consumer}"), self._question, reply=f"{self._inbox.subject}.{self._requests}"
        )

    async def _consumer_exists(self, now: float) -> bool:
        """False while the server cannot tell; nothing is asked unless the last request was refused."""
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
        """What the server says about the open request: it has ended."""
        self._awaited = 0
        if (message.headers or {}).get("Status") not in ("404", "408"):
            # The consumer is gone, its leader moves, or JetStream is not up yet.
            self._doubtful = True
            self._not_before = asyncio.get_running_loop().time() + _PAUSE_SECONDS

    async def _return(self, message: Msg) -> None:
        if self._give_back is not None:
            with contextlib.suppress(BusError):  # it comes again after ack_wait
                await self._give_back(message)


# One look into a JetStream consumer: what lies there now is taken, and nothing is waited for.
# It has an inbox of its own: a message comes under the subject that it was stored under, by which one cannot tell which
# question it answers. So one question is open at a time, and what comes when none is goes back.
#: Where a delivery is settled begins with this.
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
        """A message that is there now; None when there is none, or the server does not tell. Raises BusError when closed."""
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
