"""The module or program that a command starts with Python, through wrappers. Pure; only words are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

#: Programs that start another program in this environment: their first words, and options that take a value.
_WRAPPERS = (
    (
        ("uv", "run"),
        frozenset(
            {
                *("--with", "--extra", "--group", "--no-group", "--only-group"),
                *("--python", "-p", "--package", "--project", "--env-file"),
            }
        ),
    ),
    (("rye", "run"), frozenset[str]()),
    (("poetry", "run"), frozenset[str]()),
    (("pdm", "run"), frozenset({"-p", "--project"})),
    (("pipenv", "run"), frozenset[str]()),
    (("env",), frozenset[str]()),
    (("xvfb-run",), frozenset({"-s", "-e", "-n"})),
)
#: The tools of Python projects among them that start a program in the project's environment.
PROJECT_RUNNERS = tuple(first for first, _ in _WRAPPERS if first[-1] == "run")
#: Options of an interpreter that take the next word, and options with which it ignores a reporter's variables.
_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_DEAF = frozenset("EIS")
_COVERAGE = frozenset({"--rcfile", "--source", "--include", "--omit", "--context", "--data-file", "--concurrency"})


class PythonCommand(NamedTuple):
    """A module ``name`` (``python -m``, or a program that is one) or the path of a script, and the words after it."""

    name: str
    words: tuple[str, ...]
    script: bool = False


def what_starts(argv: Sequence[str]) -> PythonCommand | None:
    """Return the Python command that ``argv`` starts; None if it starts none, or one that ignores its environment."""
    words = list(argv)
    for first, valued in _WRAPPERS:
        if tuple(words[: len(first)]) == first:
            words = _without_options(words[len(first) :], valued)
            while first == ("env",) and words and "=" in words[0]:
                words.pop(0)
    if not words:
        return None
    program = words[0].rpartition("/")[2]
    started = _by_python(words[1:]) if is_python(program) else PythonCommand(program, tuple(words[1:]))
    if started is not None and started.name == "coverage" and started.words[:1] == ("run",):
        rest = _without_options(list(started.words[1:]), _COVERAGE, stop="-m")
        if rest[:1] == ["-m"] and len(rest) > 1:
            return PythonCommand(rest[1], tuple(rest[2:]))
        return PythonCommand(rest[0], tuple(rest[1:]), script=True) if rest else None
    return started


def is_python(program: str) -> bool:
    """Return whether a program of this name is an interpreter."""
    return program.removeprefix("python").replace(".", "").isdigit() if program != "python" else True


def _by_python(words: list[str]) -> PythonCommand | None:
    left = list(words)
    while left:
        word = left.pop(0)
        if word == "-m":
            return PythonCommand(left[0], tuple(left[1:])) if left else None
        if word in _VALUED:
            left = left[1:]
        elif word.startswith("-"):
            if word == "-c" or (not word.startswith("--") and _DEAF.intersection(word[1:]) and word[:2] not in _VALUED):
                return None
        else:
            return PythonCommand(word, tuple(left), script=True)
    return None


def _without_options(words: list[str], valued: frozenset[str], stop: str = "--") -> list[str]:
    """Return the words after the options; ``stop`` ends the options, and stays unless it is ``--``."""
    left = list(words)
    while left and left[0].startswith("-") and left[0] != stop:
        left = left[2:] if left[0] in valued else left[1:]
    return left[1:] if stop == "--" and left[:1] == ["--"] else left
