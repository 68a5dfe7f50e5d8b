"""Maven and Gradle: our program replaces ``mvn`` and takes the tests from its reports; a script listens to Gradle's tests."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from random import Random

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import Instruments, PlainFramework, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.shell import program_in_place
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_PACKAGE = "gatewright.ecosystems.java"
_TESTS = "src/test/java/"
_PACKAGE_LINE = TextPattern(r"(?m)^\s*package\s+[A-Za-z0-9_.]+\s*;")
#: A file's import -> the annotation of a test, and the assertion of equality.
_KINDS = {
    "org.junit.jupiter": ("@org.junit.jupiter.api.Test", "org.junit.jupiter.api.Assertions.assertEquals({0}, {1})"),
    "org.junit.": ("@org.junit.Test", "org.junit.Assert.assertEquals({0}, {1})"),
    "org.testng": ("@org.testng.annotations.Test", "org.testng.Assert.assertEquals({1}, {0})"),
}
#: Modules that are followed, and files that are read for their kind.
_MOST_READ = 40
_MODULE = TextPattern(r"<module>\s*[^<>\s]+\s*</module>")
_SETTINGS = ("settings.gradle", "settings.gradle.kts")
#: ``include`` with its line and those that go on with further names, and the names.
_INCLUDES = TextPattern(r"(?m)^\s*include\b[^\n]*(?:\n\s*['\":][^\n]*)*")
_NAMES = TextPattern(r"['\"][A-Za-z0-9_.:-]+['\"]")


@dataclass(frozen=True, slots=True)
class _BuildTool(PlainFramework):
    """What both tools have in common; ``goals`` are words that run tests."""

    name: str
    program: str
    goals: frozenset[str]
    package_files: tuple[str, ...]
    languages: frozenset[str] = frozenset({"java", "kotlin"})
    reports_files: bool = False
    replays: None = None

    def may_start(self, argv: Sequence[str]) -> bool:
        """Return whether the program is named plainly; with another path our program would not be found."""
        return bool(argv) and argv[0] == self.program and not self.goals.isdisjoint(argv)


class Maven(_BuildTool):
    """See ``Framework``: the tests of Surefire and Failsafe, in any language."""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline is run as a whole: Maven lists no tests."""
        del argv, tree
        return program_in_place("mvn", _PACKAGE, order)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A class in the package of one of the suite, with the annotations of that one."""
        return await _plant_class(await _modules(argv, tree), tree, draw)


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


class Gradle(_BuildTool):
    """See ``Framework``: the tests of tasks of the type ``Test``, in any language."""

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:
        """See ``Framework.instruments``. The baseline is run as a whole: older versions list no tests."""
        del argv, tree
        made = program_in_place("gradle", _PACKAGE, order)
        script = (resources.files(_PACKAGE) / "reporter.gradle").read_bytes()
        return Instruments({**made.files, "reporter.gradle": script}, made.variables)

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """A class in the package of one of the suite, with the annotations of that one."""
        if any(word.partition("=")[0] == "--tests" for word in argv):
            return None
        return await _plant_class(await gradle_projects(tree), tree, draw)


async def gradle_projects(tree: TreeFiles) -> list[str]:
    """The folder at the top, and those of the projects that the settings include by name."""
    lines = [line for path in _SETTINGS for line in _INCLUDES.findall(await read_text(tree, path))]
    names = [name[1:-1].strip(":") for line in lines for name in _NAMES.findall(line)]
    return ["", *(posixpath.normpath(name.replace(":", "/")) for name in names)]


async def _plant_class(folders: Iterable[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
    """Plant a class in a package of the suite, in one of the modules ``folders``; None if no test class is known."""
    places = tuple(posixpath.join(folder, _TESTS) for folder in folders)
    files = sorted(path for path in tree.paths if path.endswith("Test.java") and path.startswith(places))
    draw.shuffle(files)
    for path in files[:_MOST_READ]:
        text = await read_text(tree, path)
        kind = next((kind for mark, kind in _KINDS.items() if mark in text), None)
        if kind is not None:
            return _plant(posixpath.dirname(path), text, kind, draw)
    return None


def _plant(folder: str, text: str, kind: tuple[str, str], draw: Random) -> Sentinel:
    holder = "".join(word.capitalize() for word in words(draw)) + "Test"
    path = posixpath.join(folder, f"{holder}.java")
    package = "".join(_PACKAGE_LINE.findall(text)[:1]).strip()
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


MAVEN = Maven("maven", "mvn", frozenset({"test", "verify"}), ("pom.xml",))
GRADLE = Gradle("gradle", "gradle", frozenset({"test", "check"}), ("build.gradle", "build.gradle.kts"))
