"""Detection of test commands from a repository's files, to propose to a person who named none. Pure; nothing runs.

Commands that can be proved come before those with only an exit code.
"""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import takewhile

from gatewright.ecosystems.make.rules import has_target
from gatewright.ecosystems.node.commands import NODE_TEST, NodeCommand, manifest_of, scripts_of
from gatewright.ecosystems.node.places import usual_places
from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern

# Commands that build what later commands test; they are repeated in every workspace that runs a later command. Pure.
_BUILDS = frozenset({"cmake", "ninja"})
#: Programs that do more than building, with the build subcommands.
_SOMETIMES = {
    "meson": frozenset({"setup", "compile"}),
    "cargo": frozenset({"build", "b"}),
    "go": frozenset({"build", "generate"}),
    "python": frozenset({"setup.py"}),
}


def builds(argv: Sequence[str]) -> bool:
    """Return whether ``argv`` may produce files that tests need."""
    program = posixpath.basename(argv[0]) if argv else ""
    words = list(argv[1:])
    if program == "npm":
        return words[:1] == ["run"] and any("build" in word or "compile" in word for word in words[1:])
    return program in _BUILDS or bool(_SOMETIMES.get(program, frozenset()).intersection(words[:1]))


_PYTEST = TextPattern(r"(?m)^\s*(?:import pytest|from pytest import)|^\s*\[(?:tool\.|tool:)?pytest|\bpytest\b")
_UNITTEST = TextPattern(r"(?m)^\s*(?:import unittest|from unittest import)")
_ADDS_TESTS = TextPattern(r"(?i)\b(?:enable_testing|include\s*\(\s*CTest)\b")
#: The placeholder that ``npm init`` writes.
_NO_TEST = "no test specified"
#: The files that configure or require pytest.
_SETTINGS = ("pytest.ini", ".pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "setup.py")
#: Test files of Python that are looked into.
_MOST_READ = 50


async def proposed_commands(tree: TreeFiles) -> tuple[str, ...]:
    """Return the test commands of ``tree``, the best first; empty if none is recognised."""
    return tuple(dict.fromkeys([each async for each in _find_ecosystems(tree)]))


def first_way(commands: Sequence[str]) -> tuple[str, ...]:
    """The best of ``proposed_commands``, with those before it that build what it tests."""
    found = list(takewhile(lambda each: builds(each.split()), commands))
    return (*found, *commands[len(found) : len(found) + 1])


async def _find_ecosystems(tree: TreeFiles) -> AsyncIterator[str]:
    if command := await _python(tree):
        yield command
    if command := await _node(tree):
        yield command
    if "Cargo.toml" in tree.paths:
        yield "cargo test"
    if "go.mod" in tree.paths:
        yield "go test ./..."
    targets = [target for target in ("test", "check") if await has_target(tree, target)]
    for target in targets:
        yield f"make {target}"
    if not targets:
        async for command in _build_tools(tree):
            yield command
    if "pom.xml" in tree.paths:
        yield "mvn test"
    if tree.paths & {"build.gradle", "build.gradle.kts"}:
        yield "gradle test"
    if tree.paths & {"phpunit.xml", "phpunit.xml.dist"}:
        yield "phpunit"
    for command in _ruby(tree):
        yield command


async def _build_tools(tree: TreeFiles) -> AsyncIterator[str]:
    """Yield the build commands of a C or C++ suite, then its test command: all are needed."""
    if _ADDS_TESTS.is_in(await read_text(tree, "CMakeLists.txt")):
        for command in ("cmake -S . -B build", "cmake --build build", "ctest --test-dir build"):
            yield command
    if "meson.build" in tree.paths:
        for command in ("meson setup build", "meson test -C build"):
            yield command


def _ruby(tree: TreeFiles) -> Iterator[str]:
    bundled = "bundle exec " if "Gemfile.lock" in tree.paths else ""
    if ".rspec" in tree.paths or any(path.startswith("spec/") and path.endswith("_spec.rb") for path in tree.paths):
        yield f"{bundled}rspec"
    if "Rakefile" in tree.paths and any(path.startswith("test/") and path.endswith(".rb") for path in tree.paths):
        yield f"{bundled}rake test"


async def _python(tree: TreeFiles) -> str:
    tests = sorted(path for path in tree.paths if _is_python_test(posixpath.basename(path)))
    if not tests:
        return ""
    demanded = [path for path in sorted(tree.paths) if path in _SETTINGS or path.startswith("requirements")]
    texts = [await read_text(tree, path) for path in (*demanded, *tests[:_MOST_READ])]
    if any(posixpath.basename(path) == "conftest.py" for path in tree.paths) or any(map(_PYTEST.is_in, texts)):
        return "python -m pytest -q"
    if not any(map(_UNITTEST.is_in, texts)):
        return "python -m pytest -q"
    # unittest itself finds tests at the top, or in packages below it.
    folders = sorted({path.partition("/")[0] for path in tests if "/" in path})
    if any("/" not in path for path in tests) or not folders or f"{folders[0]}/__init__.py" in tree.paths:
        return "python -m unittest"
    return f"python -m unittest discover -s {folders[0]}" if folders[0].isidentifier() else "python -m unittest"


def _is_python_test(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py"))


async def _node(tree: TreeFiles) -> str:
    script = (await scripts_of(tree)).get("test", "")
    if script and _NO_TEST not in script:
        if "pnpm-lock.yaml" in tree.paths:
            return "pnpm test"
        return "yarn test" if "yarn.lock" in tree.paths else "npm test"
    accepts = usual_places(NodeCommand(NODE_TEST, ()))
    if await manifest_of(tree) and any(accepts(path) for path in tree.paths if "node_modules" not in path.split("/")):
        return "node --test"
    return ""
