"""The outcome of each pytest test inside the runner's own functions, compared with the reported outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.machinery import ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader
from types import FunctionType, ModuleType
from typing import Any
from zipimport import zipimporter

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from . import channel, originals

#: Hooks by which an outcome can be made another one on its way out.
_ON_THE_WAY = (
    "pytest_pyfunc_call",
    "pytest_runtest_call",
    "pytest_runtest_logreport",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_setup",
    "pytest_runtest_teardown",
)
#: Installed plugins that have these hooks, and leave outcomes as they are.
_HARMLESS = ("_hypothesis_pytestplugin", "anyio", "pytest_asyncio", "pytest_cov", "pytest_mock", "pytest_timeout", "xdist")
_OURS = (__package__, "_pytest.")
#: All places are checked after this many reports, a few around each test.
_EACH = 100
_READERS = (ExtensionFileLoader, SourceFileLoader, SourcelessFileLoader, AssertionRewritingHook, zipimporter, type(None))


class Watch:
    """Registered after collection, so that its wrappers are innermost and it sees each final outcome.

    ``found`` has the anomalies: description -> the workspace file that causes it, empty if unknown.
    """

    def __init__(self, order: channel.ReceivedOrder, kept: originals.Originals, name: Callable[[str], str]) -> None:
        self.found: dict[str, str] = {}
        self._order = order
        self._kept = kept
        self._name = name
        self._failed: set[tuple[str, str]] = set()
        self._codes: dict[str, tuple[Any, Any]] = {}
        self._count = 0
        self._hooks: Any = None
        self._plugins: Any = None
        #: The number of checked implementations of each hook involved.
        self._seen: dict[str, int] = {}

    def begin(self, session: Any) -> None:
        """Note the tests that were collected, and what has read them."""
        self._kept.note_loaded()
        self.found.update(self._kept.changed())
        self._hooks = session.config.hook
        self._plugins = session.config.pluginmanager
        self._look_for_strangers()
        readers = set()
        for item in getattr(session, "items", ()):
            function = _function(item)
            if function is not None:
                self._codes[item.nodeid] = (function, function.__code__)
            readers.add(type(getattr(getattr(item, "module", None), "__loader__", None)))
        for reader in readers.difference(_READERS):
            place = self._kept.place_of(reader)
            if place is not None:
                self.found[f"what reads modules of tests: {reader.__name__}"] = place

    def end(self) -> dict[str, str]:
        """Return all anomalies."""
        self.found.update(self._kept.changed())
        return self.found

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        self._failed.clear()
        self._check_places(item)
        outcome: Any = yield
        if outcome.excinfo is not None:
            self._failed.add((item.nodeid, "call"))
        self._check_places(item)

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Iterator[None]:
        outcome: Any = yield
        if outcome.excinfo is not None:
            self._failed.add((pyfuncitem.nodeid, "call"))

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator[None]:
        outcome: Any = yield
        if outcome.excinfo is None and outcome.get_result().outcome == "failed":
            self._failed.add((item.nodeid, call.when))
        elif call.when != "call":
            self._failed.discard((item.nodeid, call.when))  # when it is run again

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        self._count += 1
        if not self._count % _EACH:
            # A fixture of several tests may still have something replaced, that it will put back.
            self.found.update((what, place) for what, place in self._kept.changed().items() if place)
        if report.outcome != "passed" or (report.nodeid, report.when) not in self._failed:
            return
        name = self._name(report.nodeid)
        for place in self._on_the_way():
            self.found[f"the outcome of {name}, which failed and was reported as passed"] = place

    def _check_places(self, item: Any) -> None:
        """Check a few places; a test may have replaced them for its own duration."""
        self._look_for_strangers()
        self.found.update(self._kept.changed_now(self._name(item.nodeid).partition("::")[0]))
        function, code = self._codes.get(item.nodeid, (None, None))
        if function is not None and function.__code__ is not code:
            self.found[f"the code of {self._name(item.nodeid)}"] = self._kept.place_of(function) or ""
        runs = vars(item).get("runtest")
        written = self._kept.place_of(runs) if runs is not None else None
        if written is not None:
            self.found[f"what runs {self._name(item.nodeid)}"] = written

    def _look_for_strangers(self) -> None:
        """Check for hooks in workspace files that belong to no plugin: such a hook can hide a single test."""
        for name in _ON_THE_WAY:
            implementations = getattr(self._hooks, name).get_hookimpls()
            if self._seen.get(name) == len(implementations):
                continue
            self._seen[name] = len(implementations)
            known = {each.__name__.partition(".")[0] for each in self._plugins.get_plugins() if isinstance(each, ModuleType)}
            for each in implementations:
                if str(getattr(each.function, "__module__", "")).partition(".")[0] not in known:
                    written = self._kept.place_of(each.function)
                    if written is not None:
                        self.found[f"a hook that no plugin has: {name}"] = written

    def _on_the_way(self) -> set[str]:
        """Return the files of hooks that may have changed an outcome; none if an installed plugin may have."""
        places: set[str] = set()
        for name in _ON_THE_WAY:
            for each in getattr(self._hooks, name).get_hookimpls():
                module = str(getattr(each.function, "__module__", ""))
                if module.startswith(_OURS):
                    continue
                written = self._kept.place_of(each.function)
                if written is not None:
                    places.add(written)
                elif not module.startswith(_HARMLESS):
                    return set()
        return places or {""}


def _function(item: Any) -> Any:
    function = getattr(item, "function", None)
    return function if isinstance(function, FunctionType) else None
