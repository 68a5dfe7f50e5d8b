"""What a scripted model does at each turn, whatever its API and whichever agent asks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

#: Tokens that a reply says it used: input, of it cached, output.
SaidUsage = tuple[int, int, int]


@dataclass(frozen=True)
class Say:
    """Words. ``usage`` overrides the honest count; ``pieces`` is how many a stream has; ``ending`` is why the reply ends, in
    the words of the API that is asked.
    """

    text: str
    usage: SaidUsage | None = None
    pieces: int = 3
    ending: str | None = None


@dataclass(frozen=True)
class Answer:
    """A structured answer: by the tool that the client wants called, where there is one; else as text."""

    value: Any
    usage: SaidUsage | None = None


@dataclass(frozen=True)
class Call:
    """A call of the tool ``name`` with exactly these arguments; a text is the input of a free-form tool.

    ``namespace``: the group in which an agent offers it, where its API has groups of tools.
    """

    name: str
    arguments: Mapping[str, Any] | str
    usage: SaidUsage | None = None
    namespace: str = ""


@dataclass(frozen=True)
class Shell:
    """A command, by the shell tool that the agent offers."""

    command: str
    usage: SaidUsage | None = None


@dataclass(frozen=True)
class Write:
    """A new file, by the tool that the agent offers. ``path`` as the agent should be told it."""

    path: str
    content: str
    usage: SaidUsage | None = None


@dataclass(frozen=True)
class Edit:
    """One text in a file replaced by another, by the tool that the agent offers."""

    path: str
    old: str
    new: str
    usage: SaidUsage | None = None


@dataclass(frozen=True)
class Read:
    """A file looked at, by the tool that the agent offers."""

    path: str
    usage: SaidUsage | None = None


@dataclass(frozen=True)
class Fail:
    """An HTTP error. ``times``: so often, then ``then``; 0 is always."""

    status: int
    body: bytes = b'{"error": {"message": "scripted"}}'
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int = 0
    then: Say | None = None


@dataclass(frozen=True)
class Raw:
    """These very bytes, in these pieces, ``delay`` seconds apart; ``close`` breaks the connection off after them."""

    pieces: tuple[bytes, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    close: bool = False


@dataclass(frozen=True)
class Slow:
    """Nothing at all for so many seconds, then ``then``."""

    seconds: float
    then: Say = field(default_factory=lambda: Say("slowly"))


@dataclass(frozen=True)
class Endless:
    """A stream of words without an end, ``delay`` seconds apart."""

    word: str = "word word word word "
    delay: float = 0.0


@dataclass(frozen=True)
class Hang:
    """The connection is taken, and nothing is ever answered."""


Turn = Say | Answer | Call | Shell | Write | Edit | Read | Fail | Raw | Slow | Endless | Hang
#: A script: turns in order, the last one again and again; or what to do, by the request's body.
Script = list[Turn] | Callable[[dict[str, Any]], Turn]

#: By the name of a tool that an agent offers: how it is called with a command, a file, an edit.
SHELLS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "exec_command": lambda command: {"cmd": command},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
    "Bash": lambda command: {"command": command, "description": "scripted"},
    "bash": lambda command: {"command": command, "description": "scripted"},
    "run_shell_command": lambda command: {"command": command, "description": "scripted", "is_background": False},
}
WRITERS: Mapping[str, Callable[[str, str], Mapping[str, Any] | str]] = {
    "Write": lambda path, content: {"file_path": path, "content": content},
    "write": lambda path, content: {"filePath": path, "path": path, "content": content},
    "create": lambda path, content: {"path": path, "file_text": content},
    "write_file": lambda path, content: {"file_path": path, "content": content},
    "apply_patch": lambda path, content: _patch(f"*** Add File: {path}", [f"+{line}" for line in content.splitlines()]),
}
EDITORS: Mapping[str, Callable[[str, str, str], Mapping[str, Any] | str]] = {
    "Edit": lambda path, old, new: {"file_path": path, "old_string": old, "new_string": new},
    "edit": lambda path, old, new: {
        "filePath": path,
        "oldString": old,
        "newString": new,
        "file_path": path,
        "old_string": old,
        "new_string": new,
        "path": path,
        "old_str": old,
        "new_str": new,
    },
    "replace": lambda path, old, new: {"file_path": path, "old_string": old, "new_string": new, "instruction": "scripted"},
    "apply_patch": lambda path, old, new: _patch(
        f"*** Update File: {path}",
        ["@@", *(f"-{line}" for line in old.splitlines()), *(f"+{line}" for line in new.splitlines())],
    ),
}
READERS: Mapping[str, Callable[[str], Mapping[str, Any]]] = {
    "Read": lambda path: {"file_path": path},
    "read": lambda path: {"filePath": path, "path": path},
    "view": lambda path: {"path": path},
    "read_file": lambda path: {"file_path": path, "absolute_path": path},
}


def _patch(head: str, lines: list[str]) -> str:
    return "\n".join(["*** Begin Patch", head, *lines, "*** End Patch"])


Makers = Mapping[str, Callable[..., Any]]


def as_call(turn: Turn, offered: Mapping[str, str]) -> Turn:
    """What is to be done as the call of a tool that is ``offered`` (its kind by its name); other turns as they are.

    Without such a tool the model has nothing to say: so answer side requests of agents, for titles and summaries.
    """
    if isinstance(turn, Call):
        return turn if offered else Say("nothing to add")
    if not isinstance(turn, Shell | Write | Edit | Read):
        return turn
    makers, words = _makers(turn)
    for name, make in makers.items():
        if name in offered:
            arguments = make(*words)
            if isinstance(arguments, str) and offered[name] != "custom":
                arguments = {"input": arguments}
            return Call(name, arguments, turn.usage)
    return Say("nothing to add")


def _makers(turn: Shell | Write | Edit | Read) -> tuple[Makers, tuple[str, ...]]:
    match turn:
        case Shell():
            return SHELLS, (turn.command,)
        case Write():
            return WRITERS, (turn.path, turn.content)
        case Edit():
            return EDITORS, (turn.path, turn.old, turn.new)
        case Read():
            return READERS, (turn.path,)


def as_text(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
