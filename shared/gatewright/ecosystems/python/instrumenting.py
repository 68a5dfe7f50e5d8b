"""The files and variables that bring the reporter to Python's tests."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from functools import cache
from importlib import resources

from gatewright.ecosystems.port import Instruments, PlainOrder, PlainRun, ReporterOrder, Sentinel
from gatewright.ecosystems.python.import_roots import ImportRoots
from gatewright.ecosystems.python.reporter.channel import ORDER, TOKEN

#: The reporter's name inside the sandbox.
PACKAGE = "gatewright_reporter"
_MODULES = "__init__ channel originals pytest_plugin recording replaying tracing unittest_hook watching"


@cache
def reporter_sources() -> Mapping[str, bytes]:
    """The reporter's files by the names that they have in the folder of additions."""
    folder = resources.files("gatewright.ecosystems.python") / "reporter"
    return {f"{PACKAGE}/{name}": (folder / name).read_bytes() for name in (f"{each}.py" for each in _MODULES.split())}


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
        "recorded": order.recorded,
        "calls": [[*call.where, call.data] for call in order.calls],
    }
    files = {**reporter_sources(), ORDER: json.dumps(fields).encode(), **more}
    places = ["@FOLDER@", *(f"{order.workspace}/{root}".rstrip("/") for root in roots.folders)]
    variables = {TOKEN: order.token, "PYTHONPATH": ":".join(places)}
    # mypy, which some suites start, ignores PYTHONPATH. It finds the top by itself.
    if below := [f"{order.workspace}/{root}" for root in roots.folders if root.strip("/")]:
        variables["MYPYPATH"] = ":".join(below)
    return Instruments(files, variables)


class PythonReplays:
    """See ``Replays``."""

    def record_calls(self, path: str, content: bytes, additions: str) -> None:
        """See ``Replays.record_calls``: the reporter changes modules as they are loaded."""

    def plant_calls(self, sentinel: Sentinel, additions: str) -> dict[str, bytes]:  # noqa: ARG002 - of the port
        """See ``Replays.plant_calls``: the reporter makes them in place of a test."""
        return {}

    def plain_run(self, order: PlainOrder) -> PlainRun:
        """See ``Replays.plain_run``. The program removes its own folder."""
        program, ordered, inside = f"{order.name}/app.py", f"{order.name}/app.json", order.workspace
        fields = {
            "token": order.token,
            "places": [posixpath.join(inside, place).rstrip("/") for place in order.places],
            "folder": order.folder,
            "variables": dict(order.variables),
            "calls": [[*call.where, call.data] for call in order.calls],
        }
        source = (resources.files("gatewright.ecosystems.python") / "reporter" / "replaying.py").read_bytes()
        files = {program: source, ordered: json.dumps(fields).encode()}
        return PlainRun(("env", "NODE_ENV=production", order.interpreter, f"{inside}/{program}", f"{inside}/{ordered}"), files)
