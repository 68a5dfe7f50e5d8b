"""unittest: reported by its own runner, which is patched once Python has loaded it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from random import Random

from gatewright.ecosystems.port import Instruments, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.python.command import what_starts
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.python.instrumenting import PACKAGE, PythonReplays, python_instruments
from gatewright.ecosystems.python.planting import draw_folder, draw_words, plant_methods

_CUSTOMISE = f"from {PACKAGE} import unittest_hook\n\nunittest_hook.start()\n".encode()


class Unittest:
    """See ``Framework``."""

    name = "unittest"
    languages = frozenset({"python"})
    reports_files = True
    packages = None
    replays = PythonReplays()

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        started = what_starts(argv)
        return started is not None and (started.name.endswith(".py") if started.script else started.name == "unittest")

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:
        """``python -m unittest``, or a script that calls ``unittest.main`` with the usual runner."""
        started = what_starts(argv)
        if started is None or not started.script:
            return self.may_start(argv)
        content = await tree.read(posixpath.normpath(started.name)) or b""
        return b"unittest.main(" in content and b"testRunner" not in content

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:  # noqa: ARG002 - of the port
        """Return our ``sitecustomize``, which then runs that of the environment."""
        return python_instruments(order, await import_roots(tree), {"sitecustomize.py": _CUSTOMISE})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:  # noqa: ARG002 - of the port
        """Return a new module beside a test module; the hook adds it to the command's tests."""
        beside = [path for path in sorted(tree.paths) if _is_test(path)]
        if not beside:
            return None
        folder, planted = draw_folder(beside, draw), plant_methods(draw)
        taken = {posixpath.basename(path) for path in tree.paths}
        name = next(name for _ in range(1000) if (name := f"test_{draw_words(draw)}.py") not in taken)
        path = f"{folder}/{name}".lstrip("/")
        owner = f"{path}::{planted.owner}."
        return Sentinel({path: planted.text.encode()}, owner + planted.failing, owner + planted.passing)


def _is_test(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test") or name.endswith("_test.py"))
