"""Gradle: our program replaces ``gradle`` and adds a script that listens to each test in the build."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.java.planted_class import MOST_READ, plant_class
from gatewright.ecosystems.port import Instruments, PlainFramework, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_PACKAGE = "gatewright.ecosystems.java"
_SCRIPT = "reporter.gradle"
_SETTINGS = ("settings.gradle", "settings.gradle.kts")
#: ``include`` with its line and those that go on with further names, and the names.
_INCLUDES = TextPattern(r"(?m)^\s*include\b[^\n]*(?:\n\s*['\":][^\n]*)*")
_NAMES = TextPattern(r"['\"][A-Za-z0-9_.:-]+['\"]")


@dataclass(frozen=True, slots=True)
class Gradle(PlainFramework):
    """See ``Framework``: the tests of tasks of the type ``Test``, in any language."""

    name: str = "gradle"
    languages: frozenset[str] = frozenset({"java", "kotlin"})
    reports_files: bool = False
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether the program is named plainly; with another path our program would not be found."""
        return bool(argv) and argv[0] == "gradle" and not {"test", "check"}.isdisjoint(argv)

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline is run as a whole: older versions list no tests."""
        del argv, tree
        made = program_in_place("gradle", _PACKAGE, order)
        script = (resources.files(_PACKAGE) / _SCRIPT).read_bytes()
        return Instruments({**made.files, _SCRIPT: script}, made.variables)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A class in the package of one of the suite, with the annotations of that one."""
        if any(word.partition("=")[0] == "--tests" for word in argv):
            return None
        return await plant_class(await _projects(tree), tree, draw)


async def _projects(tree: TreeFiles) -> list[str]:
    """The folder at the top, and those of the projects that the settings include by name."""
    lines = [line for path in _SETTINGS for line in _INCLUDES.findall(await read_text(tree, path))]
    names = [name[1:-1].strip(":") for line in lines for name in _NAMES.findall(line)]
    return ["", *(posixpath.normpath(name.replace(":", "/")) for name in names[:MOST_READ])]


GRADLE = Gradle()
