"""Reports an agent's activity as events: truncated if long, ended if endless."""

from __future__ import annotations

import os.path
import time
from collections.abc import Callable, Iterable
from typing import Final

from gatewright.services.worker.agents.permission import By
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEvent,
    AgentFileChange,
    AgentMessage,
    AgentPermission,
    AgentProblem,
    AgentStarted,
    AgentText,
    AgentUsage,
    Answered,
    Asked,
    EmitEvent,
)

#: Events of one conversation, beside questions and their answers, which are bounded where they are answered.
MAX_EVENTS: Final = 5_000
#: Characters of one message, of all of them, and of anything else that is quoted.
MAX_MESSAGE: Final = 16_384
MAX_MESSAGES: Final = 2_000_000
MAX_QUOTE: Final = 2_000
_MAX_PATHS: Final = 100
#: Seconds between two checks of an unfinished message.
_TEXT_SECONDS: Final = 0.5


def word(value: object) -> str:
    """Return a keyword from an agent's message: empty for anything that is no text."""
    return value if isinstance(value, str) else ""


def quote_text(text: object, most: int = MAX_QUOTE) -> str:
    """``text`` cut to ``most`` characters, and such that it can be written as UTF-8; empty for what is no text."""
    return text[:most].encode("utf-8", "replace").decode("utf-8") if isinstance(text, str) else ""


class AgentReporter:
    """``directory`` is the workspace as the agent names it: paths below it are reported relative to it."""

    def __init__(self, emit: EmitEvent, directory: str) -> None:
        self._emit = emit
        self._directory = directory
        self._events = 0
        self._characters = 0
        self._text_time = 0.0
        #: The last message, whole or its beginning.
        self.last = ""

    def started(self, agent: str, version: str, session: str) -> None:
        """A session stands."""
        self._event(
            AgentStarted(agent=quote_text(agent, 200), version=quote_text(version, 200), session=quote_text(session, 200))
        )

    def message(self, text: object) -> None:
        """Words of the agent."""
        words = quote_text(text, MAX_MESSAGE)
        if not words.strip():
            return
        self.last = words
        self._characters += len(words)
        if self._characters <= MAX_MESSAGES:
            self._event(AgentMessage(text=words))

    def text(self, read: Callable[[], str]) -> None:
        """Report an unfinished message now and then, without a last word that may be incomplete."""
        now = time.monotonic()
        if now - self._text_time < _TEXT_SECONDS:
            return
        words = quote_text(read(), MAX_MESSAGE)
        whole = words[: max(words.rfind(" "), words.rfind("\n"), 0)]
        if whole.strip():
            self._text_time = now
            self._emit(AgentText(text=whole))

    def command(self, command: object, exit_code: object = None) -> None:
        """Report a command that the agent runs, or has run."""
        code = exit_code if type(exit_code) is int and abs(exit_code) < 1 << 31 else None
        self._event(AgentCommand(command=quote_text(command), exit_code=code))

    def files(self, paths: Iterable[object]) -> None:
        """Report files that the agent wrote."""
        named = tuple(dict.fromkeys(self._below(path) for path in paths if isinstance(path, str)))[:_MAX_PATHS]
        if named:
            self._event(AgentFileChange(paths=named))

    def answered(
        self,
        asked: Asked,
        subject: object,
        answer: Answered,
        offered: tuple[str, ...] = (),
        by: By = "contract",
        person: str = "",
    ) -> None:
        """Report a request and its answer. These are always reported."""
        event = AgentPermission(
            asked=asked, subject=quote_text(subject), answer=answer, offered=offered, by=by, person=quote_text(person, 300)
        )
        self._emit(event)

    def usage(self, input_tokens: object, output_tokens: object) -> None:
        """Tokens, as the agent counts them."""
        if type(input_tokens) is int and type(output_tokens) is int and min(input_tokens, output_tokens) >= 0:
            self._event(AgentUsage(input_tokens=min(input_tokens, 1 << 53), output_tokens=min(output_tokens, 1 << 53)))

    def problem(self, message: object) -> None:
        """Report a problem of the agent, or of the conversation with it."""
        self._event(AgentProblem(message=quote_text(message) or "the agent complains without words"))

    def _event(self, event: AgentEvent) -> None:
        self._events += 1
        if self._events < MAX_EVENTS:
            self._emit(event)
        elif self._events == MAX_EVENTS:
            self._emit(AgentProblem(message=f"the agent reports more than {MAX_EVENTS} events; further ones are not recorded"))

    def _below(self, path: str) -> str:
        plain = quote_text(os.path.normpath(path[:4096]), 4096)
        return plain.removeprefix(f"{self._directory}/")
