"""The files and variables that bring the reporter to Python's tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from gatewright.ecosystems.port import Instruments, ReporterOrder
from gatewright.ecosystems.python.import_roots import ImportRoots
from gatewright.ecosystems.python.reporter.channel import ORDER, TOKEN

#: The reporter's name inside the sandbox.
PACKAGE = "gatewright_reporter"
_SOURCES = ("__init__.py", "channel.py", "originals.py", "pytest_plugin.py", "tracing.py", "unittest_hook.py", "watching.py")


@cache
def reporter_sources() -> Mapping[str, bytes]:
    """The reporter's files by the names that they have in the folder of additions."""
    folder = resources.files("gatewright.ecosystems.python") / "reporter"
    return {f"{PACKAGE}/{name}": (folder / name).read_bytes() for name in _SOURCES}


def python_instruments(order: ReporterOrder, roots: ImportRoots, more: Mapping[str, bytes]) -> Instruments:
    """Return the instruments: ``roots`` are the tree's folders and names that precede installed packages; ``more`` adds
    files."""
    fields = {
        "purpose": order.purpose,
        "pipe": order.pipe,
        "workspace": order.workspace,
        "only": order.only,
        "planted": order.planted,
        "modules": sorted(roots.names),
        "lines": {path: list(lines) for path, lines in order.lines.items()},
    }
    files = {**reporter_sources(), ORDER: json.dumps(fields).encode(), **more}
    places = ["@FOLDER@", *(f"{order.workspace}/{root}".rstrip("/") for root in roots.folders)]
    variables = {TOKEN: order.token, "PYTHONPATH": ":".join(places)}
    # mypy, which some suites start, ignores PYTHONPATH. It finds the top by itself.
    if below := [f"{order.workspace}/{root}" for root in roots.folders if root.strip("/")]:
        variables["MYPYPATH"] = ":".join(below)
    return Instruments(files, variables)
