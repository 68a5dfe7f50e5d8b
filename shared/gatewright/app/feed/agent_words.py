"""What agents say while they work, as far as it was heard: stored nowhere, and told to operators alone."""

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

#: Runs whose agents are remembered, and how much of each.
_MOST_TALKING: Final = 100
_MOST_SAID: Final = 200
#: Seconds between two looks at the connection.
_LOOK: Final = 1.0


class AgentWord(NamedTuple):
    """``number`` grows with everything that is heard, of whatever run."""

    number: int
    said: AgentActivity


class AgentWords:
    """``heard`` is called whenever something came. ``first``: what numbers begin after."""

    def __init__(self, link: LedgerLink, heard: Callable[[], None] = lambda: None, first: int = 0) -> None:
        self._link = link
        self._heard = heard
        self._count = first
        self._said: OrderedDict[str, deque[AgentWord]] = OrderedDict()

    def said(self, run_id: str, after: int = 0) -> Sequence[AgentWord]:
        """What the agents of a run have said since this began to listen, beyond ``after``, the newest last."""
        return tuple(each for each in self._said.get(run_id, ()) if each.number > after)

    async def listen(self) -> None:
        """Hear what agents say, on each connection anew, until cancelled; an identity that may not is told nothing."""
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
        said = codec.decode(message.data, AgentActivity)
        self._count += 1
        words = self._said.setdefault(said.run_id, deque(maxlen=_MOST_SAID))
        # What an agent says just now takes the place of what it said a moment ago, and its whole message that of its parts.
        over = {said.event} & MOMENTARY or {"text"}
        for each in [word for word in words if word.said.task_id == said.task_id and word.said.event in over]:
            words.remove(each)
        words.append(AgentWord(self._count, said))
        self._said.move_to_end(said.run_id)
        while len(self._said) > _MOST_TALKING:
            self._said.popitem(last=False)
        self._heard()
