"""One look into a JetStream consumer: what lies there now is taken, and nothing is waited for.

It has an inbox of its own: a message comes under the subject that it was stored under, by which one cannot tell which question
it answers. So one question is open at a time, and what comes when none is goes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from nats.aio.msg import Msg

from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection, api_subject
from gatewright.bus.jetstream.inbox import Inbox
from gatewright.errors import BusError

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
