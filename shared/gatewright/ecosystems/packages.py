"""Changed sources that tests should use, those of packages that ran no test, and those that a command cannot judge.

A file belongs to the package of the nearest folder above it. A package ran a test if a test in its files was not skipped.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Final

from gatewright.contracts.reports import UntestedPackage
from gatewright.ecosystems.java.frameworks import gradle_projects
from gatewright.ecosystems.node.members import MANIFEST, member_folders, workspace_globs
from gatewright.ecosystems.port import Framework, TreeFiles
from gatewright.ecosystems.runner.names import is_test, is_test_data
from gatewright.ecosystems.subtree import read_text
from gatewright.patterns import TextPattern
from gatewright.syntax_trees import language_of

#: Folders whose modules tests need not load.
_NOT_TESTED = frozenset(
    {"doc", "docs", "example", "examples", "sample", "samples", "demo", "demos", "fixture", "fixtures", "template", "templates"}
    | {
        *("benchmark", "benchmarks", "bench", "vendor", "third_party", "_vendor", "node_modules", "site-packages"),
        *("typings", "stubs"),
    }
)
#: Modules that are settings of a tool, which another program reads.
_TOOLS = frozenset(("setup.py", "noxfile.py", "tasks.py", "fabfile.py", "dodo.py", "versioneer.py", "manage.py", "conf.py"))
#: Declarations and build files that have the ending of a source.
_NO_SOURCES: Final = (".d.ts", ".d.mts", ".d.cts", ".gradle.kts", ".pyi")
#: A test in a source file (Rust).
_TEST_INSIDE: Final = TextPattern(r"#\[(?:\w+::)*test\b")
#: Source files that are searched for such tests, and packages or files that are listed.
_MOST_READ, _MOST = 40, 100


def is_apart(path: str) -> bool:
    """Return whether ``path`` is in a folder outside the program: documents, examples, vendored code."""
    return not _NOT_TESTED.isdisjoint(path.split("/")[:-1])


def loadable(changed: Iterable[str]) -> list[str]:
    """Return the changed files whose loading the reporter reports, sorted."""
    sources = (path for path in changed if path.endswith(".py") and not is_apart(path))
    return sorted(path for path in sources if path.rpartition("/")[2] not in _TOOLS)


def unmeasured_endings(framework: Framework, changed: Iterable[str]) -> tuple[str, ...]:
    """Return the endings of changed sources of which the framework does not show whether tests use them."""
    judged = framework.languages if framework.reports_files or framework.package_files else frozenset()
    found = {posixpath.splitext(path)[1] for path in changed if _language(path) not in {None, *judged}}
    return tuple(sorted(found))


async def untested_packages(
    framework: Framework, tree: TreeFiles, before: TreeFiles, changed: Iterable[str], outcomes: Mapping[str, str]
) -> tuple[UntestedPackage, ...]:
    """Return the packages with changed sources of which no test ran; ``outcomes`` are those of the tests by id."""
    sources = [path for path in changed if _language(path) in framework.languages]
    if not framework.package_files or not sources or not outcomes:
        return ()
    # A change that takes a package out of its workspace does not exempt it.
    folders = (await _package_folders(framework, tree) | await _package_folders(framework, before)) or frozenset({""})
    ran = {_package_of(test.partition("::")[0], folders) for test, outcome in outcomes.items() if outcome != "skipped"}
    found: dict[str, list[str]] = {}
    for path in sorted(sources):
        if (package := _package_of(path, folders)) is not None and package not in ran:
            found.setdefault(package, []).append(path)
    own: dict[str | None, list[str]] = {package: [] for package in found}
    for path in sorted(tree.paths) if found else ():
        if (package := _package_of(path, folders)) in own and _language(path) in framework.languages:
            own[package].append(path)
    listed = []
    for package, files in list(found.items())[:_MOST]:
        has_tests = any(is_test(path.encode()) for path in own[package])
        has_tests = has_tests or any([_TEST_INSIDE.is_in(await read_text(tree, path)) for path in own[package][:_MOST_READ]])
        listed.append(UntestedPackage(folder=package or ".", files=tuple(files[:_MOST]), has_tests=has_tests))
    return tuple(listed)


def _language(path: str) -> str | None:
    """Return the language of a source of the program or of its tests; None for anything else."""
    name = path.encode("utf-8", "surrogatepass")
    return None if path.endswith(_NO_SOURCES) or is_apart(path) or is_test_data(name) else language_of(name)


async def _package_folders(framework: Framework, tree: TreeFiles) -> frozenset[str]:
    """Return the folders of packages, of which the top is an empty one; with workspaces of Node only the members."""
    if MANIFEST in framework.package_files:
        return frozenset(member_folders(tree, "", await workspace_globs(tree)))
    found = frozenset(posixpath.dirname(path) for path in tree.paths if path.endswith(framework.package_files))
    return found.union(await gradle_projects(tree)) if framework.name == "gradle" else found


def _package_of(path: str, folders: frozenset[str]) -> str | None:
    while path:
        path = posixpath.dirname(path)
        if path in folders:
            return path
    return None
