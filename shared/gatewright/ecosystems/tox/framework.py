"""Commands that tox starts: in environments of its own, with few variables passed on unless its settings are overridden."""

from __future__ import annotations

import configparser
import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import likely_tests
from gatewright.ecosystems.subtree import read_tables, read_text
from gatewright.patterns import TextPattern

#: The environment that tox takes when its settings list none.
_USUAL = "py"
_VALUED = frozenset({"-e", "-f", "-m", "-x", "-c", "--override", "--workdir", "--root", "--runner"})
#: Option of the plugin ``tox-current-env``: the commands use installed packages.
CURRENT = "--current-env"


def is_tox(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` starts tox."""
    return bool(argv) and posixpath.basename(argv[0]) == "tox"


async def commands_of_tox(argv: Sequence[str], tree: TreeFiles) -> tuple[tuple[str, ...], ...]:
    """The commands of the environments that ``argv`` names, or of those that the settings list."""
    settings = await read_tox(tree) if is_tox(argv) else None
    if settings is None or await why_tox_is_unproven(argv, tree):
        return ()
    return tuple(words for each in _environments(argv, settings) for words in settings.commands(each))


async def why_tox_is_unproven(argv: Sequence[str], tree: TreeFiles) -> str:
    """Return why the tests of a tox command cannot be reported, and what to do; empty if they can."""
    settings = await read_tox(tree) if is_tox(argv) else None
    if settings is None or CURRENT in argv:
        return ""
    if not any(settings.installs(each) for each in _environments(argv, settings)):
        return ""
    inner = likely_tests(words for each in _environments(argv, settings) for words in settings.commands(each))
    instead = f"name what it runs ({inner}), or give --current-env (of tox-current-env)"
    return f"tox installs into environments of its own, which needs a network that tests do not have: {instead}"


async def hand_on_through_tox(argv: Sequence[str], tree: TreeFiles, variables: Mapping[str, str]) -> Mapping[str, str]:
    """Pass the variables to every environment that may run, including those with an own list, which ignore the base."""
    settings = await read_tox(tree)
    names = ",".join(variables)
    sections = [BASE] if settings is None else settings.override_places(_environments(argv, settings))
    return {**variables, "TOX_OVERRIDE": ";".join(f"{section}.pass_env+={names}" for section in sections)}


def _environments(argv: Sequence[str], settings: ToxSettings) -> tuple[str, ...]:
    return _named_environments(argv) or settings.listed or (_USUAL,)


def _named_environments(argv: Sequence[str]) -> tuple[str, ...]:
    found: list[str] = []
    left = list(argv[1:])
    while left:
        word = left.pop(0)
        if word == "--":
            break
        if word == "-e" or word.startswith("-e"):
            value = word[2:].lstrip("=") or (left.pop(0) if left else "")
            found += [name.strip() for name in value.split(",") if name.strip()]
        elif word in _VALUED:
            del left[:1]
    return tuple(found)


#: The section that others take what they lack from.
BASE = "testenv"
_CORE = "tox"
_POSARGS = TextPattern(r"\{posargs(?::[^{}]*)?\}")
_PLACES = {"{toxinidir}": ".", "{tox_root}": ".", "{envpython}": "python", "{/}": "/"}
#: Commands and environments that are looked at.
_MOST = 200


@dataclass(frozen=True, slots=True)
class ToxSettings:
    """``sections`` by name (``testenv``, ``testenv:py``, ``tox``), each a text or a list by key."""

    sections: Mapping[str, Mapping[str, Any]]
    #: Whether they are in the TOML form of tox 4, with other section names.
    native: bool = False

    @property
    def listed(self) -> tuple[str, ...]:
        """The environments that tox runs when none is named."""
        value = self._core("env_list", "envlist")
        if isinstance(value, list):
            return tuple(each for each in value if isinstance(each, str))[:_MOST]
        names = [name.strip() for name in str(value or "").replace("\n", ",").split(",")]
        # ``py{311,312}`` is several environments, usually with the commands of the base.
        return tuple(name for name in names[:_MOST] if name and not {"{", "}"} & set(name))

    def commands(self, environment: str) -> tuple[tuple[str, ...], ...]:
        """Return the commands of ``environment``, without words for ``--``; unreadable ones are left out."""
        value = self._of(environment, "commands")
        if isinstance(value, list):
            lines = [[word for word in each if isinstance(word, str)] for each in value if isinstance(each, list)]
        else:
            lines = [list(_line_words(line)) for line in str(value or "").replace("\\\n", " ").splitlines()[:_MOST]]
        return tuple(tuple(words) for line in lines if (words := _plain_words(line)))

    def installs(self, environment: str) -> bool:
        """Return whether tox must install anything before the commands run."""
        if any(self._of(environment, key) for key in ("deps", "extras", "dependency_groups")):
            return True
        skips = [self._of(environment, "skip_install"), self._core("skipsdist", "no_package")]
        package = str(self._of(environment, "package") or "")
        return not any(str(each).strip().casefold() in {"true", "1"} for each in skips) and package != "skip"

    def override_places(self, environments: Sequence[str]) -> list[str]:
        """Return the names of the base and ``environments`` for overrides."""
        base, before = ("env_run_base", "env.") if self.native else (BASE, f"{BASE}:")
        return [base, *(f"{before}{each}" for each in environments)]

    def _core(self, *keys: str) -> Any:
        core = self.sections.get(_CORE, {})
        return next((core[key] for key in keys if key in core), None)

    def _of(self, environment: str, key: str) -> Any:
        for name in (f"{BASE}:{environment}", BASE):
            if key in self.sections.get(name, {}):
                return self.sections[name][key]
        return None


async def read_tox(tree: TreeFiles) -> ToxSettings | None:
    """Return the settings at the top of ``tree``, from the first file with any, in tox's own order; None for none."""
    for name, section in (("tox.ini", ""), ("setup.cfg", "tox:tox")):
        text = await read_text(tree, name)
        if text and (sections := _ini(text)) is not None and (not section or section in sections):
            core = sections.get(section) if section else sections.get(_CORE)
            return ToxSettings({**sections, _CORE: core or {}})
    for name, place in (("pyproject.toml", ("tool", "tox")), ("tox.toml", ())):
        tables = await read_tables(tree, name)
        if tables and (found := _in_tables(tables, place)) is not None:
            return found
    return None


def _in_tables(table: Any, place: tuple[str, ...]) -> ToxSettings | None:
    for key in place:
        table = table.get(key) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        return None
    if isinstance(legacy := table.get("legacy_tox_ini"), str):
        return ToxSettings(_ini(legacy) or {})
    environments, base = table.get("env"), table.get("env_run_base")
    named = environments if isinstance(environments, dict) else {}
    sections = {f"{BASE}:{name}": value for name, value in named.items() if isinstance(value, dict)}
    return ToxSettings({_CORE: table, BASE: base if isinstance(base, dict) else {}, **sections}, native=True)


def _ini(text: str) -> Mapping[str, Mapping[str, Any]] | None:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {name: dict(parser[name]) for name in parser.sections()}


def _line_words(line: str) -> list[str]:
    text = line.strip().lstrip("-").strip() if line.strip().startswith("- ") else line.strip()
    for found in set(_POSARGS.findall(text)):
        text = text.replace(found, found[1:-1].partition(":")[2])
    try:
        return [] if text.startswith("#") else shlex.split(text)
    except ValueError:
        return []


def _plain_words(words: list[str]) -> list[str]:
    """Return the words without tox's substitutions; empty if the program itself is unknown."""
    found = []
    for word in words:
        for name, value in _PLACES.items():
            word = word.replace(name, value)  # noqa: PLW2901 - what is left of it
        if "{" not in word:
            found.append(word.removeprefix("./") if word != "./" else ".")
        elif not found:
            return []
    return found
