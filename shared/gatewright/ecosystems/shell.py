"""Shell lines: the commands that a line starts, as far as its words show, and a script that replaces a runner.

It need not be exact: a control run later proves what was recognised, and also finds a line that discards an exit code (``||
true``).
"""

from __future__ import annotations

import hashlib
import posixpath
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

from gatewright.ecosystems.port import OURS_FIRST, PROGRAMS, Instruments, ReporterOrder
from gatewright.patterns import TextPattern

_OPERATORS = frozenset("();<>|&")
_ASSIGNMENT = TextPattern(r"[A-Za-z_][A-Za-z0-9_]*=.*")
#: Words that start the following command unchanged.
_BEFORE = frozenset({"exec", "env", "time", "command", "cross-env", "cross-env-shell", "nice", "@"})
#: Longer lines of a build file or script are not read.
_LONGEST = 10_000


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its words, the variables that the line sets for it, and its folder, relative to the line's."""

    words: tuple[str, ...]
    variables: frozenset[str] = frozenset()
    folder: str = ""


def commands_of(line: str) -> tuple[Command, ...]:
    """Return all commands of ``line`` in order; none if it cannot be parsed."""
    if len(line) > _LONGEST:
        return ()
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return ()
    return tuple(_commands(words))


def likely_tests(commands: Iterable[tuple[str, ...]]) -> str:
    """Return, for people, the first of ``commands`` that looks like a test, else the first."""
    found = list(commands)
    words = next((each for each in found if any("test" in word for word in each)), found[0] if found else ())
    return shlex.join(words) if words else "its test command"


def order_files(order: ReporterOrder) -> dict[str, bytes]:
    """``order.sh``, which sets an order's fields as variables, and ``only``, one id a line."""
    settings = {
        "token": order.token,
        "purpose": order.purpose.value,
        "pipe": order.pipe,
        "workspace": order.workspace,
        "seed": hashlib.sha256(order.token.encode()).hexdigest()[:12],
    }
    return {
        "order.sh": "".join(f"{name}={shlex.quote(value)}\n" for name, value in settings.items()).encode(),
        "only": "".join(f"{each}\n" for each in order.only).encode(),
    }


def program_in_place(name: str, package: str, order: ReporterOrder) -> Instruments:
    """Return our program, ``NAME.sh`` of ``package``, which precedes the real ``name`` on PATH."""
    program = (resources.files(package) / f"{name}.sh").read_bytes()
    return Instruments({**order_files(order), f"{PROGRAMS}{name}": program}, OURS_FIRST)


def _commands(words: list[str]) -> Iterator[Command]:
    folder = ""
    for part in _split(words):
        variables: set[str] = set()
        while part and (part[0] in _BEFORE or _ASSIGNMENT.fullmatch(part[0]) is not None):
            variables.update({part[0].partition("=")[0]} if "=" in part[0] else ())
            part = part[1:]  # noqa: PLW2901 - what is left of it
        if part[:1] == ["cd"] and len(part) == 2:
            folder = posixpath.normpath(posixpath.join(folder, part[1]))
        elif part:
            yield Command(tuple(part), frozenset(variables), "" if folder == "." else folder)


def _split(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word and _OPERATORS.issuperset(word):
            yield part
            part = []
        else:
            part.append(word)
    yield part
