"""Reading the ledger from an account that may make no consumer: message by message, woken by what the server repeats.

A consumer has a place to deliver to, which its maker chooses; who may only read is not given that. What the server repeats is
taken as news that there is something to read, never as the thing itself: whatever got lost on the way is read all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from nats.aio.msg import Msg

from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import Storage, StoredMessage
from gatewright.bus.port import Message
from gatewright.bus.topology import WATCH_SUBJECT
from gatewright.errors import BusError

#: Seconds after which a follower looks without having been woken.
_LOOK_AGAIN = 5.0
#: Seconds between two attempts while the server is away.
_PAUSE = 0.2


async def watcher_replay(
    connection: Connection, storage: Storage, stream: str, pattern: str, *, follow: bool, after: int = 0
) -> AsyncGenerator[Message, None]:
    """Every message beyond ``after`` that ``pattern`` covers, in order; with ``follow`` it goes on with new ones.

    Without ``follow`` it ends with the last message that there is. Raises BusError when the stream cannot be read; with
    ``follow`` it waits for a server that is away.
    """
    woken = asyncio.Event()

    async def wake(_message: Msg) -> None:
        woken.set()

    subscription = None
    connection.watch(woken.set)
    try:
        if follow:
            subject = WATCH_SUBJECT.replace("*", pattern.rpartition(".")[2])
            subscription = await connection.subscribe(subject, wake)
            await connection.flush()
        seen = after
        while True:
            woken.clear()
            stored = await _next(connection, storage, stream, pattern, seen + 1, patient=follow)
            if stored is not None:
                seen = stored.seq
                yield Message(stored.subject, stored.data, stored.headers(), stored.seq)
            elif not follow:
                return
            else:
                await _wait(woken)
    finally:
        connection.unwatch(woken.set)
        if subscription is not None and connection.connected:
            await subscription.unsubscribe()


async def _next(
    connection: Connection, storage: Storage, stream: str, pattern: str, sequence: int, *, patient: bool
) -> StoredMessage | None:
    while True:
        try:
            return await storage.following(stream, pattern, sequence)
        except BusError:
            if not patient:
                raise
            connection.check()
            await asyncio.sleep(_PAUSE)


async def _wait(woken: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(_LOOK_AGAIN):
            await woken.wait()
    except TimeoutError:
        return
