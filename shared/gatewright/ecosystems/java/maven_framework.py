"""Maven: a program of ours stands in the place of ``mvn``, and tells the tests from its reports."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import Instruments, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_TESTS = "src/test/java/"
_MODULE = TextPattern(r"<module>\s*[^<>\s]+\s*</module>")
_PACKAGE = TextPattern(r"(?m)^\s*package\s+[A-Za-z0-9_.]+\s*;")
#: What a file asks for -> the annotation of a test, and how equality is asserted.
_KINDS = {
    "org.junit.jupiter": ("@org.junit.jupiter.api.Test", "org.junit.jupiter.api.Assertions.assertEquals({0}, {1})"),
    "org.junit.": ("@org.junit.Test", "org.junit.Assert.assertEquals({0}, {1})"),
    "org.testng": ("@org.testng.annotations.Test", "org.testng.Assert.assertEquals({1}, {0})"),
}
_MOST_READ = 40


@dataclass(frozen=True, slots=True)
class Maven:
    """See ``Framework``: the tests of Surefire and Failsafe, whatever they are written with."""

    name: str = "maven"
    languages: frozenset[str] = frozenset({"java", "kotlin"})
    tells_files: bool = False

    def may_start(self, argv: Sequence[str]) -> bool:
        """By its plain name alone: another path would not lead to the program of ours."""
        return bool(argv) and argv[0] == "mvn" and not {"test", "verify"}.isdisjoint(argv)

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """See ``Framework.recognises``."""
        del tree
        return self.may_start(argv)

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline is run as a whole: Maven lists no tests."""
        del argv, tree
        return program_in_place("mvn", "gatewright.ecosystems.java", order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A class in the package of one of the suite, with the annotations of that one."""
        folders = await _modules(argv, tree)
        places = [posixpath.join(folder, _TESTS) for folder in folders]
        files = sorted(path for path in tree.paths if path.endswith("Test.java") and path.startswith(tuple(places)))
        draw.shuffle(files)
        for path in files[:_MOST_READ]:
            text = await read_text(tree, path)
            kind = next((kind for mark, kind in _KINDS.items() if mark in text), None)
            if kind is not None:
                return _planted(posixpath.dirname(path), text, kind, draw)
        return None


async def _modules(argv: Sequence[str], tree: TreeFiles) -> list[str]:
    """The folders of the modules that ``argv`` tests for certain, the top as an empty one."""
    for at, word in enumerate(argv):
        if word.startswith("-pl"):
            value = word[3:].lstrip("=") or "".join(argv[at + 1 : at + 2])
            return [posixpath.normpath(each) for each in value.split(",") if each and each[0] not in "!-+:"]
    found: list[str] = []
    left = [""]
    while left and len(found) < _MOST_READ:
        folder = left.pop()
        if (path := posixpath.join(folder, "pom.xml")) in tree.paths:
            found.append(folder)
            modules = [
                each.partition(">")[2].partition("<")[0].strip() for each in _MODULE.findall(await read_text(tree, path))
            ]
            left += [posixpath.normpath(posixpath.join(folder, each)) for each in modules]
    return found


def _planted(folder: str, text: str, kind: tuple[str, str], draw: Random) -> Sentinel:
    holder = "".join(word.capitalize() for word in words(draw)) + "Test"
    path = posixpath.join(folder, f"{holder}.java")
    package = "".join(_PACKAGE.findall(text)[:1]).strip()
    passing, failing = ("".join((first, *(word.capitalize() for word in rest))) for first, *rest in (words(draw), words(draw)))
    one, other, right, wrong = sum_of(draw)
    annotation, equal = kind
    checks = (
        (name, equal.format(expected, f"Math.addExact({one}, {other})"))
        for name, expected in ((passing, right), (failing, wrong))
    )
    tests = [f"    {annotation}\n    public void {name}() {{\n        {check};\n    }}\n" for name, check in checks]
    lines = [package, "", f"public class {holder} {{", "\n".join(tests) + "}", ""]
    return Sentinel({path: "\n".join(lines).encode()}, f"{path}::{holder}.{failing}", f"{path}::{holder}.{passing}")


MAVEN = Maven()
