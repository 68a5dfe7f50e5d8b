"""Commands that nox starts: ``session.run`` with literal words, in the session functions of its file. It passes variables
on."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import likely_tests
from gatewright.ecosystems.subtree import read_text

_FILE = "noxfile.py"
_RUNS = frozenset({"run", "run_always"})
_INSTALLS = frozenset({"install", "conda_install", "run_install"})
_SESSIONS = frozenset({"-s", "-e", "--session", "--sessions"})
#: Options with which sessions use installed packages, and install nothing.
HERE = frozenset({"--no-venv", "--no-install"})
#: Bytes of a file that is parsed.
_LARGEST = 200_000


@dataclass(frozen=True, slots=True)
class _Session:
    name: str
    commands: tuple[tuple[str, ...], ...]
    installs: bool


def is_nox(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` starts nox."""
    return bool(argv) and posixpath.basename(argv[0]) == "nox"


async def commands_of_nox(argv: Sequence[str], tree: TreeFiles) -> tuple[tuple[str, ...], ...]:
    """The commands of the sessions that ``argv`` names, or of all."""
    if not is_nox(argv) or await why_nox_is_unproven(argv, tree):
        return ()
    return tuple(words for session in await _chosen_sessions(argv, tree) for words in session.commands)


async def why_nox_is_unproven(argv: Sequence[str], tree: TreeFiles) -> str:
    """Return why the tests of a nox command cannot be reported, and what to do; empty if they can."""
    sessions = await _chosen_sessions(argv, tree) if is_nox(argv) and not HERE.issubset(argv) else ()
    if not any(session.installs for session in sessions):
        return ""
    inner = likely_tests(words for session in sessions for words in session.commands)
    instead = f"name what it runs ({inner}), or give --no-venv --no-install"
    return f"nox installs into environments of its own, which needs a network that tests do not have: {instead}"


async def _chosen_sessions(argv: Sequence[str], tree: TreeFiles) -> tuple[_Session, ...]:
    text = await read_text(tree, _FILE)
    try:
        module = ast.parse(text if len(text) <= _LARGEST else "")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    found = tuple(_session(each) for each in module.body if isinstance(each, ast.FunctionDef) and _is_session(each))
    named = _named_sessions(argv)
    return tuple(session for session in found if not named or session.name in named)


def _named_sessions(argv: Sequence[str]) -> frozenset[str]:
    """Return the sessions of ``-s tests-3.12 lint`` and ``--session=tests``: names without an interpreter suffix."""
    names: list[str] = []
    taking = False
    for word in argv[1:]:
        option, _, value = word.partition("=")
        if word.startswith("-"):
            taking = option in _SESSIONS
            names += [value] if taking and value else []
        elif taking:
            names.append(word)
    return frozenset(form for name in names for form in (name, name.partition("(")[0], name.rpartition("-")[0]))


def _is_session(function: ast.FunctionDef) -> bool:
    return any("session" in ast.unparse(each).partition("(")[0] for each in function.decorator_list)


def _session(function: ast.FunctionDef) -> _Session:
    name = function.name
    for each in function.decorator_list:
        for keyword in each.keywords if isinstance(each, ast.Call) else ():
            if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
                name = str(keyword.value.value)
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    commands = [words for call in calls if _method(call) in _RUNS and (words := tuple(_literal(call)))]
    return _Session(name, tuple(commands), any(_method(call) in _INSTALLS for call in calls))


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _literal(call: ast.Call) -> Iterator[str]:
    """Yield the literal words of a call; none if the first is not literal."""
    for number, argument in enumerate(call.args):
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value
        elif number == 0:
            return
