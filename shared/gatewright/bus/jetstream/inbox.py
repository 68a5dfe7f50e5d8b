"""An inbox: a private subject to which a server or a service replies."""

from __future__ import annotations

from typing import Self

from nats.aio.subscription import Subscription

from gatewright.bus.jetstream.api import translate_errors
from gatewright.bus.jetstream.connection import Connection, Receiver


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
