"""Messages of agents that trickle in, a few letters at a time, told whole."""

from __future__ import annotations

from gatewright.services.worker.agents.port import AgentEvent, AgentMessage, Answered, Asked, Tell
from gatewright.services.worker.agents.telling import MAX_MESSAGE, Telling


class JoiningTelling(Telling):
    """A ``Telling`` whose messages end with the next event of another kind."""

    def __init__(self, tell: Tell, directory: str) -> None:
        super().__init__(tell, directory)
        self._parts: list[str] = []
        self._held = 0

    def part(self, text: str) -> None:
        """A part of a message; what is beyond the length of one is dropped."""
        room = max(0, MAX_MESSAGE - self._held)
        if room and text:
            self._parts.append(text[:room])
            self._held += min(len(text), room)

    def flush(self) -> None:
        """End the message that is being said."""
        text = "".join(self._parts)
        self._parts.clear()
        self._held = 0
        self.message(text)

    def answered(self, asked: Asked, subject: object, answer: Answered, offered: tuple[str, ...] = ()) -> None:
        """See ``Telling.answered``."""
        self.flush()
        super().answered(asked, subject, answer, offered)

    def _event(self, event: AgentEvent) -> None:
        if not isinstance(event, AgentMessage):
            self.flush()
        super()._event(event)
