"""The connection of a board: made anew when the system is another one or was started again, and what is asked of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from gatewright.app.feed.claims import ToldClaims, claims_of
from gatewright.app.feed.follower import BoardFollower
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.client.client import Client
from gatewright.errors import GatewrightError, UnavailableError

#: Seconds between two looks at the connection, and for which a server may be away before its address is asked for again.
_LOOK = 1.0
_AWAY = 5.0
#: Seconds between two attempts to connect.
_AGAIN = 0.2
#: Open runs that the gatekeeper is asked about.
_MOST_ASKED = 200


class LedgerLink:
    """``connect`` gives a new connection each time it is called. ``follower`` holds what was read, whatever comes and goes.

    ``ask_as``: connects as a publisher, who is asked of claims in the place of an identity that may not ask.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        warn: Callable[[str], None] = lambda _words: None,
        ask_as: Callable[[], AbstractAsyncContextManager[Client]] | None = None,
    ) -> None:
        self._connect = connect
        self._ask_as = ask_as
        self._warn = warn
        self._client: Client | None = None
        self.follower: BoardFollower | None = None
        self._ready = asyncio.Event()

    @property
    def client(self) -> Client:
        """The connection of this moment. Raises UnavailableError (``no_stack``)."""
        if self._client is None:
            raise UnavailableError("the system is not there now; this goes on when it is", code="no_stack")
        return self._client

    async def board_follower(self) -> BoardFollower:
        """The follower, once it has read the ledger to its end."""
        await self._ready.wait()
        follower = self.follower
        assert follower is not None  # noqa: S101 - set before the event
        revision = -1
        while not follower.current:
            revision = await follower.changed(revision)
        return follower

    async def run(self) -> None:
        """Keep connected until cancelled."""
        warned = ""
        while True:
            try:
                async with self._connect() as client:
                    self._client, warned = client, ""
                    await self._follow(client)
            except (GatewrightError, OSError) as error:
                words = f"the system cannot be reached: {error}"
                if words != warned:  # it is tried often
                    self._warn(words)
                warned = words
            finally:
                self._client = None
            await asyncio.sleep(_AGAIN)

    async def _follow(self, client: Client) -> None:
        """Until the server has been away for a while."""
        if self.follower is None:
            self.follower = BoardFollower(client.bus, warn=self._warn)
        _attach(self.follower, client, self._ask_as)
        self._ready.set()
        following = asyncio.create_task(self.follower.run())
        away = 0.0
        try:
            while away < _AWAY and not following.done():
                await asyncio.sleep(_LOOK)
                away = 0.0 if client.bus.connected else away + _LOOK
            if following.done():
                await following
        finally:
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError, GatewrightError):
                await following


async def read_once(client: Client) -> BoardFollower:
    """The ledger of this moment, read to its end. Raises BusError."""
    follower = BoardFollower(client.bus)
    _attach(follower, client)
    await follower.catch_up()
    await follower.look()
    return follower


def may_ask(client: Client) -> bool:
    """Whether the server lets this identity ask and hear more than the ledger."""
    return not isinstance(client.bus, JetStreamBus) or client.bus.asks


def _attach(
    follower: BoardFollower, client: Client, ask_as: Callable[[], AbstractAsyncContextManager[Client]] | None = None
) -> None:
    """What an identity may not ask for is not asked for: the server logs every try."""

    async def ask() -> ToldClaims:
        async with ask_as() if ask_as is not None and not asks else contextlib.nullcontext(client) as asker:
            return await _claims(asker)

    asks = may_ask(client)
    follower.attach(client.bus, ask if asks or ask_as is not None else None, letters=asks)


async def _claims(client: Client) -> ToldClaims:
    return claims_of(await client.list_runs(limit=_MOST_ASKED, open_only=True))
