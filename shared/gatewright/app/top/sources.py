"""The data of the screens: the followed ledger, the state of the system, and the agents' live output."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final

from gatewright.app.feed.agent_words import AgentWords
from gatewright.app.feed.link import LedgerLink
from gatewright.app.top.surroundings import TopSurroundings, look_around
from gatewright.client.client import Client
from gatewright.clock import Clock
from gatewright.contracts import AgentActivity
from gatewright.errors import GatewrightError
from gatewright.view.board import Board
from gatewright.view.needs import Need, needs_of

#: Seconds between two checks of the system, and of the connection.
LOOK_AROUND: Final = 5.0
_LOOK: Final = 1.0


class TopSources:
    """``connect`` returns a new connection each time. ``changed`` waits until something must be redrawn."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        clock: Clock,
        *,
        look: Callable[[Client], Awaitable[TopSurroundings]] = look_around,
    ) -> None:
        self.link = LedgerLink(connect, warn=self._warn)
        self.clock = clock
        self.surroundings = TopSurroundings()
        #: Why there is no connection, if known.
        self.trouble = ""
        self._look = look
        self._words = AgentWords(self.link)

    @property
    def board(self) -> Board | None:
        """The ledger as far as it was read; None until it was read to its end once."""
        follower = self.link.follower
        return follower.board if follower is not None and follower.current else None

    @property
    def live(self) -> bool:
        """Return whether the shown state is live."""
        return self.link.follower is not None and self.link.follower.connected

    def needs(self) -> tuple[Need, ...]:
        """Return what needs a person now."""
        follower = self.link.follower
        if follower is None:
            return ()
        return needs_of(follower.board, follower.letters, self.clock.now(), follower.silent)

    def agent_activities(self, run_id: str) -> Sequence[AgentActivity]:
        """Return the agents' output of a run since this was opened, the newest last."""
        return tuple(entry.activity for entry in self._words.entries(run_id))

    async def changed(self, revision: int) -> int:
        """See the follower's method; waits for a follower first."""
        follower = self.link.follower or await self.link.board_follower()
        return await follower.changed(revision)

    async def run(self) -> None:
        """Keep all of it up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.link.run())
            group.create_task(self._words.listen())
            group.create_task(self._look_around())

    async def _look_around(self) -> None:
        while True:
            try:
                self.surroundings = await self._look(self.link.client)
            except GatewrightError as error:
                self.surroundings = TopSurroundings(refused=error.message)
                await asyncio.sleep(_LOOK)
                continue
            await asyncio.sleep(LOOK_AROUND)

    def _warn(self, words: str) -> None:
        self.trouble = words
