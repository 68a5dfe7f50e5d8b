"""Commands that tox starts: in environments of its own, with few variables passed on unless its settings are overridden."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.shell import likely_tests
from gatewright.ecosystems.tox.settings import BASE, ToxSettings, read_tox

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
