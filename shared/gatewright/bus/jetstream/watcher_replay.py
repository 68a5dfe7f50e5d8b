"""Replay of the ledger for an account that may not create consumers: message by message, driven by republished messages.

The creator of a consumer chooses where it delivers to, so a read-only identity may not create one. A republished message is
only a signal that something new can be read; a lost signal loses no message.
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
    """Yield every message beyond ``after`` that ``pattern`` matches, in order; with ``follow``, continue with new ones.

    Without ``follow`` it ends with the last stored message. Raises BusError when the stream cannot be read; with ``follow``
    it waits for a server that is away.
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
            stored = await _next_message(connection, storage, stream, pattern, seen + 1, patient=follow)
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


async def _next_message(
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
