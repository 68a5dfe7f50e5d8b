"""Live output of agents as far as received: stored nowhere, and shown to operators only."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from gatewright.app.feed.link import LedgerLink, may_ask
from gatewright.bus.port import Message
from gatewright.bus.topology import LIVE_SUBJECT
from gatewright.client.client import Client
from gatewright.contracts import AgentActivity, codec
from gatewright.contracts.activity import MOMENTARY
from gatewright.errors import GatewrightError

#: Maximum runs whose output is kept, and maximum entries of each.
_MOST_TALKING: Final = 100
_MOST_ENTRIES: Final = 200
#: Seconds between two looks at the connection.
_LOOK: Final = 1.0


class AgentWord(NamedTuple):
    """``number`` increases with every received entry of any run."""

    number: int
    activity: AgentActivity


class AgentWords:
    """``heard`` is called whenever something came. ``first``: what numbers begin after."""

    def __init__(self, link: LedgerLink, heard: Callable[[], None] = lambda: None, first: int = 0) -> None:
        self._link = link
        self._heard = heard
        self._count = first
        self._entries: OrderedDict[str, deque[AgentWord]] = OrderedDict()

    def entries(self, run_id: str, after: int = 0) -> Sequence[AgentWord]:
        """Return the agents' output of a run since listening began, after the number ``after``, newest last."""
        return tuple(entry for entry in self._entries.get(run_id, ()) if entry.number > after)

    async def listen(self) -> None:
        """Receive agents' output, on each new connection, until cancelled; without the right to, receive nothing."""
        heard: Client | None = None
        while True:
            try:
                client = self._link.client
                if client is not heard and may_ask(client):
                    await client.bus.listen(LIVE_SUBJECT, self._hear)
                    heard = client
            except GatewrightError:
                pass  # there is no connection now, or it may not
            await asyncio.sleep(_LOOK)

    async def _hear(self, message: Message) -> None:
        activity = codec.decode(message.data, AgentActivity)
        self._count += 1
        entries = self._entries.setdefault(activity.run_id, deque(maxlen=_MOST_ENTRIES))
        # An agent's momentary state replaces its previous one, and its complete message replaces its parts.
        over = {activity.event} & MOMENTARY or {"text"}
        for old in [old for old in entries if old.activity.task_id == activity.task_id and old.activity.event in over]:
            entries.remove(old)
        entries.append(AgentWord(self._count, activity))
        self._entries.move_to_end(activity.run_id)
        while len(self._entries) > _MOST_TALKING:
            self._entries.popitem(last=False)
        self._heard()
