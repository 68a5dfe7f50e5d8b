"""The commands of a make target, read from a makefile without make: names, plain variables, recipes.

Conservative: a line with more than plain variables is skipped, with the commands it would run. Included files are not read.
The result is a guess; running the command shows what really starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

#: In make's order of preference.
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_VARIABLE = TextPattern(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*(?P<sign>[:?+]{0,3}=)\s*(?P<value>.*)")
_RULE = TextPattern(r"(?P<targets>[^:=#\t][^:=#]*)::?(?P<needed>[^=].*|)")
_USE = TextPattern(r"\$[({][A-Za-z_][A-Za-z0-9_.-]*[)}]")
_DEEPEST = 5
_MOST_LINES = 5_000
#: Variables that make itself sets.
_BUILT_IN = {"CURDIR": ".", "MAKE": "make", "SHELL": "/bin/sh"}


@dataclass
class _Makefile:
    variables: dict[str, str] = field(default_factory=lambda: dict(_BUILT_IN))
    recipes: dict[str, list[str]] = field(default_factory=dict)
    needed: dict[str, list[str]] = field(default_factory=dict)


async def recipe_lines(tree: TreeFiles, target: str) -> tuple[str, ...]:
    """Return the shell lines of ``make target``, those of its prerequisites first."""
    name = next((each for each in MAKEFILES if each in tree.paths), None)
    if name is None:
        return ()
    return tuple(_lines_of(_parse(await read_text(tree, name)), target, _DEEPEST, set()))


async def has_target(tree: TreeFiles, target: str) -> bool:
    """Return whether a makefile has a rule for ``target``."""
    name = next((each for each in MAKEFILES if each in tree.paths), None)
    return name is not None and target in _parse(await read_text(tree, name)).needed


def _parse(text: str) -> _Makefile:
    found = _Makefile()
    targets: list[str] = []
    for line in text.replace("\\\n", " ").splitlines()[:_MOST_LINES]:
        if line.startswith("\t"):
            for target in targets:
                found.recipes.setdefault(target, []).append(line.strip())
            continue
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (variable := _VARIABLE.fullmatch(line)) is not None:
            _set(found.variables, variable)
            targets = []
        elif (rule := _RULE.fullmatch(line)) is not None:
            needed, _, inline = rule["needed"].partition(";")
            targets = rule["targets"].split()
            for target in targets:
                found.needed.setdefault(target, []).extend(needed.partition("#")[0].partition("|")[0].split())
                found.recipes.setdefault(target, []).extend([inline.strip()] if inline.strip() else [])
        else:
            targets = []
    return found


def _set(variables: dict[str, str], parts: dict[str, str]) -> None:
    name, value = parts["name"], parts["value"].partition(" #")[0].strip()
    if parts["sign"] == "+=":
        variables[name] = f"{variables.get(name, '')} {value}".strip()
    elif parts["sign"] != "?=" or name not in variables:
        variables[name] = value


def _lines_of(makefile: _Makefile, target: str, depth: int, seen: set[str]) -> Iterator[str]:
    """Yield each target's lines once, as make does: a hostile file could require the same few targets any number of times."""
    if depth == 0 or target in seen:
        return
    seen.add(target)
    for needed in makefile.needed.get(target, ()):
        yield from _lines_of(makefile, needed, depth - 1, seen)
    for line in makefile.recipes.get(target, ()):
        expanded = _expand_variables(line.lstrip("@-+ "), makefile.variables)
        if expanded is not None:
            yield expanded


def _expand_variables(line: str, variables: dict[str, str]) -> str | None:
    """Return ``line`` with its variables expanded, unset ones as empty; None if it has more than plain variables."""
    for _ in range(_DEEPEST):
        uses = set(_USE.findall(line))
        if not uses:
            break
        for use in uses:
            line = line.replace(use, variables.get(use[2:-1], ""))
        if len(line) > 10_000:
            return None
    line = line.replace("$$", "\0")
    return None if "$" in line else line.replace("\0", "$")
