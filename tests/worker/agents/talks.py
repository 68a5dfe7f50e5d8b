"""One side of a conversation, played from a list: what an agent says, and what it was told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Says = Mapping[str, Any]
#: Given all that the agent was told so far: what it says next, None for its end.
Play = Callable[[list[dict[str, Any]]], list[Says] | None]


class PlayedWire:
    """A ``Wire``. ``play`` is asked whenever there is nothing left to hear."""

    def __init__(self, play: Play) -> None:
        self.told: list[dict[str, Any]] = []
        self.finished = False
        self._play = play
        self._waiting: list[Says] = []

    async def receive(self) -> dict[str, object] | None:
        if not self._waiting:
            said = self._play(self.told)
            if said is None:
                return None
            self._waiting = list(said)
        return dict(self._waiting.pop(0))

    async def receive_text(self) -> str | None:
        raise AssertionError("this agent speaks JSON")

    async def send(self, message: Mapping[str, object]) -> None:
        self.told.append(dict(message))

    async def finish(self) -> None:
        self.finished = True
