"""Assembles messages that agents send in small pieces."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gatewright.services.worker.agents.permission import By
from gatewright.services.worker.agents.port import AgentEvent, AgentMessage, Answered, Asked, EmitEvent
from gatewright.services.worker.agents.reporter import MAX_MESSAGE, AgentReporter

#: Maximum number of messages remembered so that they are reported once.
MAX_REMEMBERED: Final = 1_000


class JoiningReporter(AgentReporter):
    """A ``AgentReporter`` whose messages end with the next event of another kind."""

    def __init__(self, emit: EmitEvent, directory: str) -> None:
        super().__init__(emit, directory)
        self._parts: list[str] = []
        self._held = 0
        self._message = ""
        self._reported: OrderedDict[str, int] = OrderedDict()

    def part(self, text: str, message: str = "") -> None:
        """A part of the message of that id; what is beyond the length of one is dropped."""
        if message != self._message:
            self.flush()
            self._message = message
        room = max(0, MAX_MESSAGE - self._held)
        if room and text:
            self._parts.append(text[:room])
            self._held += min(len(text), room)
            self.text(lambda: "".join(self._parts))

    def whole(self, text: str, message: str) -> None:
        """Replace the collected text of a message by its complete text, unless it was reported with that."""
        if message == self._message:
            self._parts.clear()
            self._held = 0
        self.part(text, message)

    def flush(self) -> None:
        """End the unfinished message."""
        text, message = "".join(self._parts), self._message
        self._parts.clear()
        self._held = 0
        self._message = ""
        if message and text:
            if self._reported.get(message[:200]) == hash(text):
                return
            self._reported[message[:200]] = hash(text)
            if len(self._reported) > MAX_REMEMBERED:
                self._reported.popitem(last=False)
        self.message(text)

    def answered(
        self,
        asked: Asked,
        subject: object,
        answer: Answered,
        offered: tuple[str, ...] = (),
        by: By = "contract",
        person: str = "",
    ) -> None:
        """See ``AgentReporter.answered``."""
        self.flush()
        super().answered(asked, subject, answer, offered, by, person)

    def _event(self, event: AgentEvent) -> None:
        if not isinstance(event, AgentMessage):
            self.flush()
        super()._event(event)
