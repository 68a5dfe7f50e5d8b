"""The files and variables that bring the reporter to Python's tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from gatewright.ecosystems.port import Instruments, Order
from gatewright.ecosystems.python.reporter.channel import ORDER, TOKEN

#: What the reporter is called inside.
PACKAGE = "gatewright_reporter"
_SOURCES = ("__init__.py", "channel.py", "pytest_plugin.py", "unittest_hook.py")


@cache
def reporter_sources() -> Mapping[str, bytes]:
    """The reporter's files by the names that they have in the folder of additions."""
    folder = resources.files("gatewright.ecosystems.python") / "reporter"
    return {f"{PACKAGE}/{name}": (folder / name).read_bytes() for name in _SOURCES}


def python_instruments(order: Order, roots: Sequence[str], modules: Sequence[str], more: Mapping[str, bytes]) -> Instruments:
    """``roots`` are folders of the workspace to import from first, ``modules`` what must come from there; ``more`` files."""
    told = {
        "purpose": order.purpose,
        "pipe": order.pipe,
        "workspace": order.workspace,
        "only": order.only,
        "planted": order.planted,
        "modules": sorted(modules),
    }
    files = {**reporter_sources(), ORDER: json.dumps(told).encode(), **more}
    places = ["@FOLDER@", *(f"{order.workspace}/{root}".rstrip("/") for root in roots)]
    return Instruments(files, {TOKEN: order.token, "PYTHONPATH": ":".join(places)})
