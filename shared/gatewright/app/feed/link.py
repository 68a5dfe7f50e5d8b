"""The connection of a board: replaced when the system changes or restarts; and the requests it makes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from gatewright.app.feed.claims import ReportedClaims, claims_of
from gatewright.app.feed.follower import BoardFollower
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.client.client import Client
from gatewright.contracts import BudgetState, FlakyTests
from gatewright.contracts.merge_queue import MergeQueueView
from gatewright.errors import DeniedError, GatewrightError, UnavailableError

#: Seconds between two checks of the connection, and of absence before the server's address is looked up again.
_LOOK = 1.0
_AWAY = 5.0
#: Seconds between two attempts to connect.
_AGAIN = 0.2
#: Maximum open runs in a request to the gatekeeper.
_MOST_ASKED = 200
_T = TypeVar("_T")


class LedgerLink:
    """``connect`` returns a new connection for each call. ``follower`` keeps the data across connections.

    ``ask_as``: connects as a publisher, to request claims for an identity that may not.
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

    async def merge_queues(self) -> tuple[MergeQueueView, ...]:
        """Return the merge queues that this identity, or the publisher beside it, may see.

        Raises DeniedError (``identity_invalid``) for an identity that reads the ledger alone, GatewrightError as the client.
        """
        return await self._ask_ledger(lambda client: client.merge_queues(), "merge queues")

    async def flaky_tests(self, repository: str) -> FlakyTests:
        """Return the flaky tests of a repository. Raises as ``merge_queues`` does."""
        return await self._ask_ledger(lambda client: client.flaky_tests(repository), "flaky tests")

    async def budgets(self) -> tuple[BudgetState, ...]:
        """Return the organisation's budgets. Raises as ``merge_queues`` does."""
        return (await self._ask_ledger(lambda client: client.budgets(), "budgets")).budgets

    async def _ask_ledger(self, question: Callable[[Client], Awaitable[_T]], what: str) -> _T:
        client = self.client
        if may_ask(client):
            return await question(client)
        if self._ask_as is None:
            words = f"this identity reads the ledger alone; an operator's or publisher's seed shows {what}"
            raise DeniedError(f"{words} (GATEWRIGHT_NATS_SEED)", code="identity_invalid")
        async with self._ask_as() as publisher:
            return await question(publisher)

    async def run(self) -> None:
        """Keep connected until cancelled."""
        warned = ""
        while True:
            try:
                async with self._connect() as client:
                    self._client, warned = client, ""
                    await self._follow_server(client)
            except (GatewrightError, OSError) as error:
                words = f"the system cannot be reached: {error}"
                if words != warned:  # it is tried often
                    self._warn(words)
                warned = words
            finally:
                self._client = None
            await asyncio.sleep(_AGAIN)

    async def _follow_server(self, client: Client) -> None:
        """Follow until the server has been away for a while."""
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
    """Return whether the server lets this identity request and receive more than the ledger."""
    return not isinstance(client.bus, JetStreamBus) or client.bus.may_request


def _attach(
    follower: BoardFollower, client: Client, ask_as: Callable[[], AbstractAsyncContextManager[Client]] | None = None
) -> None:
    """Attach without requests that the identity may not make: the server logs every try."""

    async def ask() -> ReportedClaims:
        async with ask_as() if ask_as is not None and not asks else contextlib.nullcontext(client) as asker:
            return await _claims(asker)

    asks = may_ask(client)
    follower.attach(client.bus, ask if asks or ask_as is not None else None, letters=asks)


async def _claims(client: Client) -> ReportedClaims:
    return claims_of(await client.list_runs(limit=_MOST_ASKED, open_only=True))
