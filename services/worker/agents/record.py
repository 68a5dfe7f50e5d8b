"""Record of a conversation with an agent: its messages, unchanged. All of them are claims."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gatewright.contracts.consultation import RefusedQuestion
from gatewright.foreign_documents import read_json
from gatewright.sandbox.port import NetworkAttempts
from gatewright.services.worker.agents.port import (
    AgentCommand,
    AgentEvent,
    AgentFileChange,
    AgentMessage,
    AgentPermission,
    AgentProblem,
    AgentStarted,
    AgentText,
    AgentToolCall,
    AgentUsage,
)
from gatewright.tasks.activity import Event

#: The artifacts of a task whose change an agent made; the bundle has a place for each.
PROMPT: Final = "codex_prompt"
EVENTS: Final = "codex_events"
TRANSCRIPT: Final = "codex_transcript"
THREAD: Final = "codex_thread_id"
COMPLAINTS: Final = "stderr"
_MOST_BYTES: Final = 16 << 20


class AgentRecord:
    """The events of one conversation, in order, up to a size."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.session = ""
        self.last_problem = ""
        self.complaints = b""
        self.attempts: NetworkAttempts | None = None
        self._events: list[AgentEvent] = []
        self._bytes = 0

    def add(self, event: AgentEvent) -> None:
        """Record one more event, except an unfinished message."""
        if isinstance(event, AgentText):
            return
        if isinstance(event, AgentStarted):
            self.session = event.session
        if isinstance(event, AgentProblem):
            self.last_problem = event.message
        size = len(msgspec.json.encode(event))
        if self._bytes + size <= _MOST_BYTES:
            self._bytes += size
            self._events.append(event)

    def logs(self) -> dict[str, bytes]:
        """The artifacts, by name."""
        return {
            PROMPT: self.prompt.encode("utf-8", "replace"),
            EVENTS: b"".join(msgspec.json.encode(event) + b"\n" for event in self._events),
            TRANSCRIPT: self._transcript().encode("utf-8", "replace"),
            THREAD: self.session.encode("utf-8", "replace"),
            COMPLAINTS: self.complaints,
        }

    def refused(self) -> tuple[RefusedQuestion, ...]:
        """Return the permission requests decided without a person, each kind once."""
        return tuple(dict.fromkeys(refused_questions(self._events)))

    def _transcript(self) -> str:
        lines = ["# Prompt", "", self.prompt, "", "# Output", ""]
        lines += [line for event in self._events if (line := in_words(event))]
        return "\n".join(lines) + "\n"


#: Why no person was asked, in words for those who read the record.
_UNASKED: Final = {
    "secret": "no person was asked: it holds what looks like a secret",
    "too_long": "no person was asked: it is too long to be shown whole",
    "too_many": "no person was asked: the task has asked too often",
    "unreachable": "no person can be asked",
}
#: The reason codes of what no person was asked, although people could have been.
_REFUSALS: Final = {"secret": "secret_found", "too_long": "agent_question_unreadable", "too_many": "too_many_agent_questions"}


def refused_questions(events: Iterable[AgentEvent]) -> Iterator[RefusedQuestion]:
    """Yield permission requests decided without a person, without their text, which may contain the secret."""
    for event in events:
        if isinstance(event, AgentPermission) and event.by in _REFUSALS:
            words = f"an agent asked leave for a {event.asked}: {_UNASKED[event.by]}; the agent was refused it"
            yield RefusedQuestion(code=_REFUSALS[event.by], message=words)


def in_words(event: AgentEvent) -> str:
    """One event for people; empty for what they need not read."""
    match event:
        case AgentStarted(agent=agent, version=version, session=session):
            return f"*{agent} {version}, session {session}*\n"
        case AgentMessage(text=text) | AgentText(text=text):
            return f"{text}\n"
        case AgentCommand(command=command, exit_code=None):
            return f"    $ {command}"
        case AgentCommand(command=command, exit_code=code):
            return f"    $ {command} -> {code}\n"
        case AgentToolCall(tool=tool, arguments=arguments, outcome=outcome):
            return f"    {tool} {arguments} -> {outcome}\n"
        case AgentFileChange(paths=paths):
            return "wrote " + ", ".join(f"`{path}`" for path in paths) + "\n"
        case AgentPermission(asked=asked, subject=subject, answer=answer, by=by, person=person):
            who = "" if by == "contract" else f" ({person or _UNASKED.get(by, by)})"
            return f"asked for leave ({asked}): {subject}: **{answer}**{who}\n"
        case AgentProblem(message=message):
            return f"problem: {message}\n"
        case AgentUsage():
            return ""


def event_name(event: AgentEvent) -> Event:
    """Return the name of an event in live reports."""
    name: Event = read_json(msgspec.json.encode(event))["event"]
    return name
