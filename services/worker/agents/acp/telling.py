"""Tells what an agent reports as events: joined where it trickles, cut where it is long, ended where it is endless."""

from __future__ import annotations

import os.path
from collections.abc import Iterable
from typing import Final

from gatewright.services.worker.agents.acp.question import Question
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentFileChange,
    AgentMessage,
    AgentPermission,
    AgentProblem,
    AgentStarted,
    AgentUsage,
    Answered,
    Tell,
)

#: Events of one conversation, beside questions and their answers, which are bounded where they are answered.
MAX_EVENTS: Final = 5_000
#: Characters of one message, of all of them, and of anything else that is quoted.
MAX_MESSAGE: Final = 16_384
MAX_MESSAGES: Final = 2_000_000
MAX_QUOTE: Final = 2_000
_MAX_PATHS: Final = 100


def quoted(text: str, most: int = MAX_QUOTE) -> str:
    """``text`` cut to ``most`` characters, and such that it can be written as UTF-8."""
    return text[:most].encode("utf-8", "replace").decode("utf-8")


class Telling:
    """``directory`` is the workspace as the agent names it: paths below it are told without it."""

    def __init__(self, tell: Tell, directory: str) -> None:
        self._tell = tell
        self._directory = directory
        self._events = 0
        self._characters = 0
        self._chunks: list[str] = []
        self._held = 0
        #: The last message, whole or its beginning.
        self.last = ""

    def started(self, agent: str, version: str, session: str) -> None:
        """A session stands."""
        self._event(AgentStarted(agent=quoted(agent, 200), version=quoted(version, 200), session=session))

    def chunk(self, text: str) -> None:
        """A part of a message, which ends at the next event of another kind."""
        room = max(0, MAX_MESSAGE - self._held)
        if room and text:
            self._chunks.append(text[:room])
            self._held += min(len(text), room)

    def flush(self) -> None:
        """End the message that is being said."""
        text = quoted("".join(self._chunks), MAX_MESSAGE)
        self._chunks.clear()
        self._held = 0
        if not text.strip():
            return
        self.last = text
        self._characters += len(text)
        if self._characters <= MAX_MESSAGES:
            self._event(AgentMessage(text=text))

    def command(self, command: str, exit_code: int | None = None) -> None:
        """A command that the agent says it runs, or has run."""
        self.flush()
        self._event(AgentCommand(command=quoted(command), exit_code=exit_code))

    def files(self, paths: Iterable[str]) -> None:
        """Files that the agent says it wrote."""
        named = tuple(dict.fromkeys(self._below(path) for path in paths))[:_MAX_PATHS]
        if named:
            self.flush()
            self._event(AgentFileChange(paths=named))

    def answered(self, question: Question, answer: Answered) -> None:
        """A question and its answer. These are told whatever else was."""
        self.flush()
        said = AgentPermission(asked=question.asked, subject=quoted(question.subject), answer=answer, offered=question.kinds)
        self._tell(said)

    def usage(self, input_tokens: int, output_tokens: int) -> None:
        """Tokens, as the agent counts them."""
        self._event(AgentUsage(input_tokens=input_tokens, output_tokens=output_tokens))

    def problem(self, message: str) -> None:
        """What the agent, or the talk with it, has to complain about."""
        self.flush()
        self._event(AgentProblem(message=quoted(message)))

    def _event(self, event: AgentStarted | AgentMessage | AgentCommand | AgentFileChange | AgentUsage | AgentProblem) -> None:
        self._events += 1
        if self._events < MAX_EVENTS:
            self._tell(event)
        elif self._events == MAX_EVENTS:
            self._tell(AgentProblem(message=f"the agent reports more than {MAX_EVENTS} events; further ones are not recorded"))

    def _below(self, path: str) -> str:
        plain = quoted(os.path.normpath(path[:4096]), 4096)
        return plain.removeprefix(f"{self._directory}/")
