"""pytest and unittest: reported by a plugin that a variable names, and by unittest's own runner, patched when it is loaded.

Tests are planted beside those that the command collects.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from random import Random

from gatewright.ecosystems.port import Instruments, ReporterOrder, Sentinel, TreeFiles
from gatewright.ecosystems.python.command import what_starts
from gatewright.ecosystems.python.import_roots import import_roots
from gatewright.ecosystems.python.instrumenting import PACKAGE, PythonReplays, python_instruments
from gatewright.ecosystems.python.planting import Planted, draw_folder, draw_words, plant_functions, plant_methods
from gatewright.ecosystems.python.pytest_settings import PytestSettings, read_settings

_CUSTOMISE = f"from {PACKAGE} import unittest_hook\n\nunittest_hook.start()\n".encode()
_PROGRAMS = frozenset({"pytest", "py.test", "pytest-3"})
#: Test files that are looked at for the suite's style.
_LOOKED_AT = 5
#: Folders that pytest skips by default.
_NEVER_ENTERED = frozenset({"build", "dist", "node_modules", "venv", "CVS", "_darcs", "__pycache__"})


class Pytest:
    """See ``Framework``."""

    name = "pytest"
    languages = frozenset({"python"})
    reports_files = True
    package_files = ()
    replays = PythonReplays()

    def may_start(self, argv: Sequence[str]) -> bool:
        """See ``Framework.may_start``."""
        started = what_starts(argv)
        return started is not None and not started.script and started.name in _PROGRAMS

    async def recognises(self, argv: Sequence[str], tree: TreeFiles) -> bool:  # noqa: ARG002 - of the port
        """Decide by the words alone. An interpreter that ignores variables (``-I``, ``-E``) could not find the plugin."""
        return self.may_start(argv)

    async def instruments(self, argv: Sequence[str], tree: TreeFiles, order: ReporterOrder) -> Instruments:  # noqa: ARG002 - of the port
        """The plugin, by ``PYTEST_PLUGINS``, which holds where ``-p`` and the loading of installed plugins are turned off."""
        made = python_instruments(order, await import_roots(tree), {})
        return Instruments(made.files, {**made.variables, "PYTEST_PLUGINS": f"{PACKAGE}.pytest_plugin"})

    async def sentinel(self, argv: Sequence[str], tree: TreeFiles, draw: Random) -> Sentinel | None:
        """Return a new module beside a test module; the plugin adds it to the command's collection."""
        settings = await read_settings(tree)
        looked_at = _looked_at(argv, settings, _modules(tree, settings))
        if not looked_at:
            return None
        folder = draw_folder(looked_at, draw)
        beside = [path for path in looked_at if posixpath.dirname(path) == folder]
        planted = await _in_style(tree, draw.sample(beside, min(len(beside), _LOOKED_AT)), settings, draw)
        taken = {posixpath.basename(path) for path in tree.paths}
        name = next(name for _ in range(1000) if (name := _name_like(draw.choice(beside), settings, draw)) not in taken)
        path = f"{folder}/{name}".lstrip("/")
        owner = f"{path}::{planted.owner}::" if planted.owner else f"{path}::"
        return Sentinel({path: planted.text.encode()}, owner + planted.failing, owner + planted.passing)


async def modules_looked_at(argv: Sequence[str], tree: TreeFiles) -> list[str]:
    """The modules of tests that ``argv`` will collect from, by the names of files and the settings at the top."""
    settings = await read_settings(tree)
    return _looked_at(argv, settings, _modules(tree, settings))


def is_rewritten(path: str, settings: PytestSettings) -> bool:
    """Return whether pytest rewrites the assertions of the module ``path``, by its name."""
    name = posixpath.basename(path)
    return name == "conftest.py" or any(_matches(name, path, pattern) for pattern in settings.files)


def _modules(tree: TreeFiles, settings: PytestSettings) -> list[str]:
    found = []
    for path in sorted(tree.paths):
        folder, _, name = path.rpartition("/")
        entered = not any(part in _NEVER_ENTERED or part.startswith(".") for part in folder.split("/") if part)
        if entered and name.endswith(".py") and any(_matches(name, path, pattern) for pattern in settings.files):
            found.append(path)
    return found


def _looked_at(argv: Sequence[str], settings: PytestSettings, modules: list[str]) -> list[str]:
    """Return the ``modules`` below the command's paths, or those of the settings; all if these match none."""
    started = what_starts(argv)
    words = started.words if started is not None else ()
    named = [posixpath.normpath(word.partition("::")[0]) for word in words if not word.startswith("-")]
    for places in (named, [posixpath.normpath(place) for place in settings.places]):
        found = [path for path in modules if any(place == path or path.startswith(f"{place}/") for place in places)]
        if found:
            return found
    return modules


async def _in_style(tree: TreeFiles, paths: Sequence[str], settings: PytestSettings, draw: Random) -> Planted:
    """Plant functions or methods, like a random one of ``paths``, so that both styles of a mixed suite are proved."""
    content = await tree.read(draw.choice(paths)) or b""
    if b"TestCase)" in content:
        return plant_methods(draw)
    prefix = settings.functions[0].rstrip("*").rstrip("_")
    return plant_functions(draw, prefix if prefix.isidentifier() else "test")


def _name_like(like: str, settings: PytestSettings, draw: Random) -> str:
    """A name as ``like`` has it."""
    name = posixpath.basename(like)
    if name.startswith("test_"):
        return f"test_{draw_words(draw)}.py"
    if name.endswith("_test.py"):
        return f"{draw_words(draw)}_test.py"
    pattern = next(pattern for pattern in settings.files if _matches(name, like, pattern))
    pattern = posixpath.basename(pattern)
    return pattern.replace("*", draw_words(draw), 1).replace("*", "") if "*" in pattern else f"test_{draw_words(draw)}.py"


def _matches(name: str, path: str, pattern: str) -> bool:
    """Match one ``*`` as in patterns of test files; of other patterns only the beginning and the end."""
    subject = path if "/" in pattern else name
    before, star, _ = pattern.partition("*")
    after = pattern.rpartition("*")[2]
    if not star:
        return subject == pattern
    return subject.startswith(before) and subject.endswith(after) and len(subject) >= len(before) + len(after)


class Unittest:
    """See ``Framework``."""

    name = "unittest"
    languages = frozenset({"python"})
    reports_files = True
    package_files = ()
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
