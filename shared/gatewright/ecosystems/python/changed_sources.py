"""Changed files that a test could load: modules, not documentation or settings of tools. Pure."""

from __future__ import annotations

from collections.abc import Iterable

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


def is_apart(path: str) -> bool:
    """Return whether ``path`` is in a folder outside the program: documents, examples, vendored code."""
    return not _NOT_TESTED.isdisjoint(path.split("/")[:-1])


def loadable(changed: Iterable[str]) -> list[str]:
    """Return the changed files whose loading the reporter reports, sorted."""
    found = []
    for path in changed:
        name = path.rpartition("/")[2]
        if name.endswith(".py") and name not in _TOOLS and not is_apart(path):
            found.append(path)
    return sorted(found)
