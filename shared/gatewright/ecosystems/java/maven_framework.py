"""Maven: our program replaces ``mvn`` and takes the tests from its reports."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.java.planted_class import MOST_READ, plant_class
from gatewright.ecosystems.port import Instruments, PlainFramework, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_MODULE = TextPattern(r"<module>\s*[^<>\s]+\s*</module>")


@dataclass(frozen=True, slots=True)
class Maven(PlainFramework):
    """See ``Framework``: the tests of Surefire and Failsafe, in any language."""

    name: str = "maven"
    languages: frozenset[str] = frozenset({"java", "kotlin"})
    reports_files: bool = False
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether the program is named plainly; with another path our program would not be found."""
        return bool(argv) and argv[0] == "mvn" and not {"test", "verify"}.isdisjoint(argv)

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline is run as a whole: Maven lists no tests."""
        del argv, tree
        return program_in_place("mvn", "gatewright.ecosystems.java", order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A class in the package of one of the suite, with the annotations of that one."""
        return await plant_class(await _modules(argv, tree), tree, draw)


async def _modules(argv: Sequence[str], tree: TreeFiles) -> list[str]:
    """The folders of the modules that ``argv`` tests for certain, the top as an empty one."""
    for at, word in enumerate(argv):
        if word.startswith("-pl"):
            value = word[3:].lstrip("=") or "".join(argv[at + 1 : at + 2])
            return [posixpath.normpath(each) for each in value.split(",") if each and each[0] not in "!-+:"]
    found: list[str] = []
    left = [""]
    while left and len(found) < MOST_READ:
        folder = left.pop()
        if (path := posixpath.join(folder, "pom.xml")) in tree.paths:
            found.append(folder)
            modules = [
                each.partition(">")[2].partition("<")[0].strip() for each in _MODULE.findall(await read_text(tree, path))
            ]
            left += [posixpath.normpath(posixpath.join(folder, each)) for each in modules]
    return found


MAVEN = Maven()
