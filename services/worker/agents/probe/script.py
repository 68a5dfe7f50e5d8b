"""Script of the scripted model, turn by turn, and selection of a tool among those that an agent offers.

A tool is identified by the shape of its parameters, not by its name: one with a command line runs commands, one with a path and
a content writes files. So a new agent needs no change here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

_COMMAND: Final = ("command", "cmd")
_PATH: Final = ("file_path", "filePath", "absolute_path", "path")
_CONTENT: Final = ("content", "contents", "file_text", "text")
_FILL: Final[Mapping[object, object]] = {"boolean": False, "integer": 60_000, "number": 60_000, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class Text:
    """A text, which ends the turn."""

    text: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """A command line, through the agent's tool for commands."""

    command: str


@dataclass(frozen=True, slots=True)
class Write:
    """A new file, through the agent's tool for files. ``path`` is absolute, in the words of the agent's box."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Fail:
    """An answer of HTTP with ``status`` in place of a reply."""

    status: int


@dataclass(frozen=True, slots=True)
class Never:
    """No answer: the connection stays open."""


Turn = Text | RunCommand | Write | Fail | Never


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that an agent offers to the model. ``free`` takes text of its own grammar in place of parameters."""

    name: str
    parameters: Mapping[str, Any]
    free: bool = False


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """A request of an agent: ``step`` is how many tools the model has called in what it shows."""

    model: str
    stream: bool
    step: int
    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A tool to be called. ``arguments`` is text for a tool that is free, else an object."""

    tool: Tool
    arguments: str | Mapping[str, object]


Reply = str | Call


def next_turn(turns: Sequence[Turn], asked: AgentRequest) -> Turn:
    """The turn that a request is due. One that offers no tools asks for a title or a summary, and is not of the script.

    The failures and silences of a script hold for those too: the service that plays it is down for every request.
    """
    turn = turns[min(asked.step, len(turns) - 1)]
    return turn if asked.tools or isinstance(turn, Fail | Never) else Text("a task")


def reply_to(turn: Text | RunCommand | Write, tools: Sequence[Tool]) -> Reply:
    """Return the text, or the tool call, of a turn with ``tools``; a text that reports a missing tool."""
    if isinstance(turn, Text):
        return turn.text
    for tool in tools:
        call = _running(turn, tool) if isinstance(turn, RunCommand) else _writing(turn, tool)
        if call is not None:
            return call
    return "there is no tool for it"


def _running(turn: RunCommand, tool: Tool) -> Call | None:
    properties = _properties(tool)
    name = next((name for name in _COMMAND if name in properties), None)
    if name is None:
        return None
    words = properties[name].get("type") == "array"
    return Call(tool, _fill_arguments(tool, {name: ["sh", "-c", turn.command] if words else turn.command}))


def _writing(turn: Write, tool: Tool) -> Call | None:
    if tool.free and "patch" in tool.name:
        added = "\n".join(f"+{line}" for line in turn.content.splitlines())
        return Call(tool, f"*** Begin Patch\n*** Add File: {turn.path}\n{added}\n*** End Patch")
    properties = _properties(tool)
    path = next((name for name in _PATH if name in properties), None)
    content = next((name for name in _CONTENT if name in properties), None)
    return (
        None if path is None or content is None else Call(tool, _fill_arguments(tool, {path: turn.path, content: turn.content}))
    )


def _properties(tool: Tool) -> Mapping[str, Mapping[str, Any]]:
    found = tool.parameters.get("properties")
    return {name: value for name, value in found.items() if isinstance(value, dict)} if isinstance(found, dict) else {}


def _fill_arguments(tool: Tool, arguments: dict[str, object]) -> dict[str, object]:
    """With something in every parameter that must be given."""
    properties = _properties(tool)
    for name in tool.parameters.get("required") or ():
        if name not in arguments:
            kind = properties.get(name, {}).get("type")
            choices = properties.get(name, {}).get("enum")
            arguments[name] = choices[0] if choices else _FILL.get(str(kind).lower(), "admission probe")
    return arguments
