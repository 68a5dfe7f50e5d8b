"""Commands that hatch starts: a command or a script of its settings, in an environment that may need installation."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import likely_tests
from gatewright.ecosystems.subtree import read_tables
from gatewright.patterns import TextPattern

#: hatch's environment that uses installed packages and installs nothing. It has no scripts.
HERE = "system"
_DEFAULT = "default"
#: The environment of ``hatch test``, and its default command.
_TESTS = "hatch-test"
_USUAL = {"run": "pytest {args}"}
_NEEDS = ("dependencies", "extra-dependencies", "features", "dependency-groups")
_ARGS = TextPattern(r"\{args(?::[^{}]*)?\}")
#: Scripts that lead to scripts are followed so often; commands of one that are read.
_DEEP, _MOST = 5, 50
_MOST_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class _Started:
    """One ``hatch run``: ``words`` in ``environment``, with its settings."""

    environment: str
    words: tuple[str, ...]
    settings: Mapping[str, Any]

    @property
    def installs(self) -> bool:
        """Return whether hatch must install anything before the command runs."""
        if self.environment == HERE:
            return False
        has_project = not (self.settings.get("skip-install") or self.settings.get("detached"))
        usual = self.environment == _TESTS and "dependencies" not in self.settings
        return has_project or usual or any(self.settings.get(each) for each in _NEEDS)

    def commands(self) -> Iterator[tuple[str, ...]]:
        """Yield the command itself, or those of the script with its name, with the remaining words inserted."""
        scripts = self.settings.get("scripts") if self.environment != HERE else None
        yield from _expand_scripts(self.words, scripts if isinstance(scripts, dict) else {})


def is_hatch(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` starts hatch."""
    return bool(argv) and posixpath.basename(argv[0]) == "hatch"


async def commands_of_hatch(argv: Sequence[str], tree: TreeFiles) -> tuple[tuple[str, ...], ...]:
    """Return the commands that ``argv`` makes hatch start without installing anything."""
    started = await _started_command(argv, tree)
    return tuple(started.commands()) if started is not None and not started.installs else ()


async def why_hatch_is_unproven(argv: Sequence[str], tree: TreeFiles) -> str:
    """Return why the tests of a hatch command cannot be reported, and what to do; empty if they can."""
    started = await _started_command(argv, tree)
    if started is None or not started.installs:
        return ""
    instead = f"name what it runs ({likely_tests(started.commands())}), or give hatch -e {HERE} run with it"
    return f"hatch installs into environments of its own, which needs a network that tests do not have: {instead}"


async def _started_command(argv: Sequence[str], tree: TreeFiles) -> _Started | None:
    words = list(argv[1:]) if is_hatch(argv) else []
    environment = ""
    while words and words[0].startswith("-"):
        option, _, value = words.pop(0).partition("=")
        if option in {"-e", "--env"}:
            environment = value or (words.pop(0) if words else "")
    if words[:1] == ["test"]:
        own = words[1:] if not any(word.startswith("-") for word in words[1:]) else []
        return _Started(_TESTS, ("run", *own), await _settings(_TESTS, tree))
    if words[:1] != ["run"] or len(words) < 2:
        return None
    first, *rest = words[1:]
    if ":" in first:
        environment, _, first = first.partition(":")
    environment = environment or _DEFAULT
    return _Started(environment, (first, *rest), await _settings(environment, tree))


async def _settings(environment: str, tree: TreeFiles) -> dict[str, Any]:
    """Return the settings of one environment, completed by those of the default one."""
    own = (await read_tables(tree, "hatch.toml")).get("envs")
    if not isinstance(own, dict):
        found: Any = await read_tables(tree, "pyproject.toml")
        for key in ("tool", "hatch", "envs"):
            found = found.get(key) if isinstance(found, dict) else None
        own = found
    tables = [own.get(name) if isinstance(own, dict) else None for name in (_DEFAULT, environment)]
    base, table = (each if isinstance(each, dict) else {} for each in tables)
    if environment == _TESTS:
        return {"scripts": _USUAL, **table}
    is_apart = table.get("detached") or table.get("template") == environment
    return dict(table) if is_apart else {**base, **table}


def _expand_scripts(words: tuple[str, ...], scripts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The commands in their order. Scripts that lead to scripts could multiply: no more than ``_MOST_STEPS`` are followed."""
    waiting = [(words, _DEEP)]
    for _ in range(_MOST_STEPS):
        if not waiting:
            return
        words, deep = waiting.pop()
        script = scripts.get(words[0]) if words and deep else None
        if script is not None:
            waiting += [(inner, deep - 1) for inner in reversed(list(_commands(script, words[1:])))]
        elif words:
            yield words


def _commands(script: object, given: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The lines of a script, with ``given`` where it wants arguments."""
    for line in script[:_MOST] if isinstance(script, list) else [script]:
        if not isinstance(line, str):
            continue
        text = line
        for place in _ARGS.findall(line)[:_MOST]:
            text = text.replace(place, shlex.join(given) or place[1:-1].partition(":")[2], 1)
        try:
            # A minus before a command has hatch pass over its exit code; the control finds that.
            yield tuple(shlex.split(text.removeprefix("- ")))
        except ValueError:
            continue
