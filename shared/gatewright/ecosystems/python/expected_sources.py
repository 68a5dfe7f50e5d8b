"""The sources with which a Python command will begin that has not run yet: its test files. Pure over names and settings."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from gatewright.ecosystems.port import TreeFiles
from gatewright.ecosystems.python.command import what_starts
from gatewright.ecosystems.python.pytest_framework import modules_looked_at


async def where_tests_begin(framework: str, argv: Sequence[str], tree: TreeFiles) -> tuple[str, ...]:
    """The paths of the test files that ``argv``, which starts ``framework``, will load first; empty for no Python.

    What these import is for others to find. A file too many costs what compiling it costs.
    """
    if framework == "pytest":
        found = set(await modules_looked_at(argv, tree))
        folders = {folder for path in found for folder in _folders(path)}
        found |= {path for folder in folders if (path := f"{folder}/conftest.py".lstrip("/")) in tree.paths}
    elif framework == "unittest":
        started = what_starts(argv)
        named = started.name if started is not None and started.script else None
        found = {path for path in tree.paths if path == named or _is_unittest(path)}
    else:
        return ()
    return tuple(sorted(found))


def _folders(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:number]) for number in range(len(parts))]


def _is_unittest(path: str) -> bool:
    name = posixpath.basename(path)
    return name.startswith("test") and name.endswith(".py")
