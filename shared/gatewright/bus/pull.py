"""A standing pull request on one JetStream consumer, and the watch over it.

One request lies open at the server while ``next`` is called, so that a message comes the moment it is stored; none lies
open while the caller is busy, so that no message waits behind another. The server sends heartbeats on an open request:
when they stay away the inbox and the request are made anew, and after a reconnect the request is sent again. What the
messages are for (a work queue, a replay) is not known here.
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

from gatewright.bus.answers import MISSING, NO_ANSWER, NO_RESPONDERS, ApiReply
from gatewright.bus.connection import Connection, api_subject
from gatewright.bus.glance import ACK_PREFIX, Glance
from gatewright.bus.inbox import Inbox
from gatewright.errors import BusError

#: Reason of the error when the consumer is not, or no longer, there.
NO_CONSUMER: Final = "consumer_missing"

_NANOSECONDS = 1_000_000_000
_OPEN_SECONDS = 30
_HEARTBEAT_SECONDS = 2
_SILENCE_SECONDS = 4.5
_PAUSE_SECONDS = 0.2


class Pull:
    """``batch`` messages at most are on their way at a time. One task at a time calls ``next``.

    ``give_back`` is called for a message that came although nobody waits for it any more.
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
        self._question = msgspec.json.encode(
            {"batch": batch, "expires": _OPEN_SECONDS * _NANOSECONDS, "idle_heartbeat": _HEARTBEAT_SECONDS * _NANOSECONDS}
        )
        self._arrived: deque[Msg] = deque()
        self._changed = asyncio.Event()
        self._inbox: Inbox | None = None
        self._requests = 0
        self._awaited = 0  # what the open request may still bring; 0: none is open
        self._heard = 0.0
        self._not_before = 0.0
        self._doubtful = False
        self._interrupted = False
        self._glance = Glance(connection, self._consumer, self._return)
        connection.watch(self._forget_request)

    async def next(self, timeout: float) -> Msg | None:  # noqa: ASYNC109 - it bounds one wait, not the caller's work
        """The next message, or None after ``timeout`` seconds.

        Raises BusError, with reason ``NO_CONSUMER`` when the consumer is not there.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        while not self._arrived:
            self._connection.check()
            look_again = await self._tend(clock())
            if clock() >= deadline:
                return None
            wake_at = min(deadline, look_again)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(None if wake_at == math.inf else wake_at):
                    await self._changed.wait()
            self._changed.clear()
        return self._arrived.popleft()

    async def take(self) -> Msg | None:
        """What there is at this moment; None when there is nothing, or when the server is away."""
        return self._arrived.popleft() if self._arrived else await self._glance.take()

    async def withdraw(self) -> Msg | None:
        """Leave no request open; what it brought all the same, when that is one message."""
        await self._drop_inbox(gently=True)
        self._awaited = 0
        return self._arrived.popleft() if self._arrived else None

    async def close(self) -> None:
        """Stop, and give back what came and was not taken. Safe to call twice."""
        self._connection.unwatch(self._forget_request)
        self._awaited = 0
        with contextlib.suppress(BusError):
            while self._arrived:
                await self._return(self._arrived.popleft())
        await self._drop_inbox(gently=self._give_back is not None)
        await self._glance.close()

    async def _tend(self, now: float) -> float:
        """See that a request lies open; returns the time at which to look again."""
        if not self._connection.connected:
            return math.inf  # the reconnect wakes us
        if self._interrupted:
            # The server may still hold the request of before; without its inbox it hands nothing out for it.
            self._interrupted = False
            await self._drop_inbox(gently=True)
        elif self._awaited and now >= self._heard + _SILENCE_SECONDS:
            self._awaited = 0
            await self._drop_inbox(gently=False)
        if not self._awaited and now >= self._not_before and await self._consumer_exists(now):
            await self._ask(now)
        return self._heard + _SILENCE_SECONDS if self._awaited else self._not_before

    async def _drop_inbox(self, *, gently: bool) -> None:
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            with contextlib.suppress(BusError):
                await (inbox.leave() if gently else inbox.forsake())

    async def _ask(self, now: float) -> None:
        if self._inbox is None:
            self._inbox = await Inbox.open(self._connection, self._receive)
        self._requests += 1
        self._awaited = self._batch
        self._heard = now
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
        now = asyncio.get_running_loop().time()
        if message.reply.startswith(ACK_PREFIX):
            if not self._awaited:
                await self._return(message)
                return
            self._awaited -= 1
            self._heard = now
            self._arrived.append(message)
        elif message.subject.endswith(f".{self._requests}"):
            self._heard = now
            self._note(message, now)
        self._changed.set()

    def _note(self, message: Msg, now: float) -> None:
        """What the server says about the open request."""
        status = (message.headers or {}).get("Status")
        if status == "100":
            return
        self._awaited = 0
        if status not in ("404", "408"):
            # The consumer is gone, its leader moves, or JetStream is not up yet.
            self._doubtful = True
            self._not_before = now + _PAUSE_SECONDS

    async def _return(self, message: Msg) -> None:
        if self._give_back is not None:
            await self._give_back(message)

    def _forget_request(self) -> None:
        self._awaited = 0
        self._interrupted = True
        self._changed.set()
