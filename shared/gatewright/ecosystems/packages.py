"""Changed sources of packages that ran no test, and changed sources that a command cannot judge.

A file belongs to the package of the nearest folder above it. A package ran a test if a test in its files was not skipped.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

from gatewright.contracts.reports import UntestedPackage
from gatewright.ecosystems.port import Framework, TreeFiles
from gatewright.ecosystems.python.changed_sources import is_apart
from gatewright.ecosystems.runner.names import is_test, is_test_data
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern
from gatewright.syntax_trees import language_of

#: Declarations and build files that have the ending of a source.
_NO_SOURCES: Final = (".d.ts", ".d.mts", ".d.cts", ".gradle.kts", ".pyi")
#: A test in a source file (Rust).
_TEST_INSIDE: Final = TextPattern(r"#\[(?:\w+::)*test\b")
#: Source files that are searched for such tests, and packages or files that are listed.
_MOST_READ, _MOST = 40, 100


def source_language(path: str) -> str | None:
    """Return the language of a source of the program or of its tests; None for anything else."""
    name = path.encode("utf-8", "surrogatepass")
    return None if path.endswith(_NO_SOURCES) or is_apart(path) or is_test_data(name) else language_of(name)


def unmeasured_endings(framework: Framework, changed: Iterable[str]) -> tuple[str, ...]:
    """Return the endings of changed sources of which the framework does not show whether tests use them."""
    judged = framework.languages if framework.reports_files or framework.packages is not None else frozenset()
    found = {posixpath.splitext(path)[1] for path in changed if source_language(path) not in {None, *judged}}
    return tuple(sorted(found)[:_MOST])


async def untested_packages(
    framework: Framework, tree: TreeFiles, changed: Iterable[str], outcomes: Mapping[str, str]
) -> tuple[UntestedPackage, ...]:
    """Return the packages with changed sources of which no test ran.

    Args:
        framework: the framework of the command.
        tree: the files of the candidate.
        changed: paths of changed files that the candidate has.
        outcomes: the tests by id, with their outcomes.
    """
    sources = [path for path in changed if source_language(path) in framework.languages]
    if framework.packages is None or not sources or not outcomes:
        return ()
    folders = await framework.packages(tree)
    ran = {_package_of(each.partition("::")[0], folders) for each, outcome in outcomes.items() if outcome != "skipped"}
    found: dict[str, list[str]] = {}
    for path in sorted(sources):
        package = _package_of(path, folders)
        if package is not None and package not in ran:
            found.setdefault(package, []).append(path)
    members: dict[str, list[str]] = {package: [] for package in found}
    for path in sorted(tree.paths) if found else ():
        if (package := _package_of(path, folders)) in members:
            members[package].append(path)
    listed = []
    for package, files in list(found.items())[:_MOST]:
        has_tests = await _has_tests(members[package], framework, tree)
        listed.append(UntestedPackage(folder=package or ".", files=tuple(files[:_MOST]), has_tests=has_tests))
    return tuple(listed)


def _package_of(path: str, folders: frozenset[str]) -> str | None:
    while path:
        path = posixpath.dirname(path)
        if path in folders:
            return path
    return None


async def _has_tests(paths: Iterable[str], framework: Framework, tree: TreeFiles) -> bool:
    sources = [path for path in paths if source_language(path) in framework.languages]
    if any(is_test(path.encode("utf-8", "surrogatepass")) for path in sources):
        return True
    return any([_TEST_INSIDE.is_in(await read_text(tree, path)) for path in sources[:_MOST_READ]])
