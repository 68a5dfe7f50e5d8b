"""A class with two planted tests, beside a class of the suite and in its style: JUnit 4, JUnit 5 or TestNG."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from random import Random

from gatewright.ecosystems.planting import sum_of, words
from gatewright.ecosystems.port import Sentinel, TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

_TESTS = "src/test/java/"
_PACKAGE = TextPattern(r"(?m)^\s*package\s+[A-Za-z0-9_.]+\s*;")
#: A file's import -> the annotation of a test, and the assertion of equality.
_KINDS = {
    "org.junit.jupiter": ("@org.junit.jupiter.api.Test", "org.junit.jupiter.api.Assertions.assertEquals({0}, {1})"),
    "org.junit.": ("@org.junit.Test", "org.junit.Assert.assertEquals({0}, {1})"),
    "org.testng": ("@org.testng.annotations.Test", "org.testng.Assert.assertEquals({1}, {0})"),
}
#: Modules that are followed, and files that are read for their kind.
MOST_READ = 40


async def plant_class(folders: Iterable[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
    """Plant a class in a package of the suite, in one of the modules ``folders``; None if no test class is known."""
    places = tuple(posixpath.join(folder, _TESTS) for folder in folders)
    files = sorted(path for path in tree.paths if path.endswith("Test.java") and path.startswith(places))
    draw.shuffle(files)
    for path in files[:MOST_READ]:
        text = await read_text(tree, path)
        kind = next((kind for mark, kind in _KINDS.items() if mark in text), None)
        if kind is not None:
            return _plant(posixpath.dirname(path), text, kind, draw)
    return None


def _plant(folder: str, text: str, kind: tuple[str, str], draw: Random) -> Sentinel:
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
