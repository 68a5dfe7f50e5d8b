"""A pytest plugin that reports every test, and runs only the planted ones if ordered.

Loaded through ``PYTEST_PLUGINS``. With pytest-xdist, the started process reports what its workers send; the workers have no
token. Ids are relative to the workspace, not to pytest's root.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from . import channel, originals, recording, replaying, tracing, watching

_NAME = __name__
_HANDED_OVER = "gatewright_loaded"
_TOUCHED = "gatewright_touched"
_PATCHED = "gatewright_patched"
_CALLS = "gatewright_calls"

_tokens = [channel.take_token()]
_order = channel.ReceivedOrder()
_seen = channel.watch_reading()
_tracer = tracing.Tracer(_order)
_tracer.start()
_recorder = recording.Recorder(_order)
_recorder.start()
os.environ.pop("PYTEST_PLUGINS", None)


def pytest_addhooks(pluginmanager: Any) -> None:
    """Called as soon as this plugin is loaded: before anything of the workspace."""
    _kept.note_hooks(pluginmanager.hook)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: Any) -> None:
    """Use one worker for two planted tests, and none for collecting."""
    if _order.purpose != "all" and getattr(config.option, "numprocesses", None):
        config.option.numprocesses = 1 if _order.purpose == "control" else 0


def pytest_configure(config: Any) -> None:
    if _order.planted:
        # Otherwise an argument that contains the planted file would replace it, with its options that exclude files.
        config.option.keepduplicates = True
    for path in _order.planted:
        config.args.append(os.path.join(_order.workspace, path))  # noqa: PTH118 - a text
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Worker(config), "gatewright_worker")
    elif _tokens and (token := _tokens.pop()):
        config.pluginmanager.register(_Reporter(config, channel.open_channel(_order.pipe, token)), "gatewright_reporter")


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: Any) -> None:
    """A planted file may be collected twice: pytest-asyncio 0.23 would wrap what it has wrapped, and call itself for ever."""
    before = vars(collector).pop("__original_collect", None)
    if before is not None:
        collector.collect = before


class _Ids:
    """Test ids: pytest's own, relative to the top of the workspace."""

    def __init__(self, config: Any) -> None:
        root = _order.here(str(config.rootdir if not hasattr(config, "rootpath") else config.rootpath))
        self._prefix = f"{root}/" if root else ""
        self._grouped = getattr(config.option, "dist", "no") == "loadgroup"

    def of(self, nodeid: str) -> str:
        if self._grouped and "@" in nodeid:
            nodeid = nodeid.rpartition("@")[0]
        if not self._prefix:
            return nodeid
        file, mark, rest = nodeid.partition("::")
        return os.path.normpath(self._prefix + file) + mark + rest


class _Selecting:
    """Selects the ordered tests after all other selection; planted tests are always selected."""

    def __init__(self, config: Any) -> None:
        self.ids = _Ids(config)
        self._plugins = config.pluginmanager
        self.watch = watching.Watch(_order, _kept, self.ids.of)
        self.collected: list[str] = []
        self.touched: list[tuple[str, str, int]] = []
        if _order.purpose == "collect" and _order.only:  # each of these has a result even if others cannot be loaded
            config.option.continue_on_collection_errors, config.option.maxfail = True, 0

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.touched += (("", *line) for line in _tracer.take())
        _recorder.begin_test(self.ids.of(item.nodeid))
        yield
        self.touched += ((self.ids.of(item.nodeid), *line) for line in _tracer.take())

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> Iterator[None]:
        before = list(items)
        yield
        self.collected = [self.ids.of(item.nodeid) for item in items]
        if _order.purpose == "all":
            return
        if _order.purpose == "control":
            # The test that must fail comes last: a command may stop at the first failure.
            items[:] = [item for planted in reversed(_order.only) for item in self._cases(planted, (*before, *items))]
            return
        chosen = {self.ids.of(item.nodeid): item for item in items if self.ids.of(item.nodeid) in _order.only}
        items[:] = list(chosen.values())
        if _order.purpose == "replay":
            items[:] = (items or before)[:1]
            self.put_calls_in(items)

    def put_calls_in(self, items: list[Any]) -> None:
        """Have a test make the recorded calls in its own place."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> None:
        self.watch.begin(session)
        self._plugins.register(self.watch, "gatewright_watch")

    def _cases(self, planted: str, items: tuple[Any, ...]) -> list[Any]:
        """Return each case of a planted test: an autouse fixture may have parametrized it."""
        found = {self.ids.of(item.nodeid): item for item in items}
        return [item for each, item in found.items() if each == planted or each.startswith(f"{planted}[")]


class _Worker(_Selecting):
    """In a worker process of pytest-xdist: sends the list of loaded files."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        origins = channel.strange_origins(_order)
        self._config.workeroutput[_HANDED_OVER] = (channel.loaded_files(_order, _seen), origins)
        self._config.workeroutput[_TOUCHED] = self.touched
        self._config.workeroutput[_CALLS] = _recorder.records()
        self._config.workeroutput[_PATCHED] = self.watch.end()


class _Reporter(_Selecting):
    """In the started process: reports everything."""

    def __init__(self, config: Any, emit: channel.Emit) -> None:
        super().__init__(config)
        self._emit = emit
        self._states: dict[str, str] = {}
        self._loaded: set[str] = set()
        self._origins: dict[str, str] = {}
        self._calls: list[dict[str, Any]] = []

    def put_calls_in(self, items: list[Any]) -> None:
        for item in items:
            name, module = getattr(item, "originalname", None) or "test", getattr(item, "module", None)
            item.runtest = replaying.in_the_place_of(name, module, _order.calls, self._emit)
            item.setup = lambda: None  # a fixture may replace what is called, or the time

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        self._emit("begin", framework="pytest", version=pytest.__version__)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self) -> None:
        # The workers read it; this process runs no test from now on.
        os.environ["PYTEST_PLUGINS"] = _NAME

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Any) -> None:
        self._collected([self.ids.of(each) for each in ids])

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: Any) -> None:
        kept = [self.ids.of(item.nodeid) for item in session.items]
        self._collected(kept if _order.purpose == "all" else self.collected)

    def _collected(self, ids: list[str]) -> None:
        if _order.purpose not in ("control", "replay"):
            for each in ids:
                self._emit("collected", id=each)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.outcome == "failed":
            self._states[report.nodeid] = "failed"
        elif report.when == "call" and report.outcome == "passed" and self._states.get(report.nodeid) != "failed":
            self._states[report.nodeid] = "passed"
        elif report.outcome == "skipped":
            self._states.setdefault(report.nodeid, "skipped")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._ended(nodeid)

    def _ended(self, nodeid: str) -> None:
        outcome = self._states.pop(nodeid, None)
        if outcome is not None:
            self._emit("test", id=self.ids.of(nodeid), outcome=outcome)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        loaded, origins = getattr(node, "workeroutput", {}).get(_HANDED_OVER, ((), {}))
        self._loaded.update(loaded)
        self._origins.update(origins)
        self.touched += getattr(node, "workeroutput", {}).get(_TOUCHED, ())
        self.watch.found.update(getattr(node, "workeroutput", {}).get(_PATCHED, {}))
        self._calls += getattr(node, "workeroutput", {}).get(_CALLS, ())

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> Iterator[None]:
        yield
        for nodeid in list(self._states):  # of a worker that died
            self._ended(nodeid)
        for each, path, line in sorted({tuple(touch) for touch in self.touched}):
            self._emit("touched", id=each, path=path, line=line)
        for record in self._calls or _recorder.records():
            self._emit(**record)
        for path in sorted(self._loaded.union(channel.loaded_files(_order, _seen))):
            self._emit("loaded", path=path)
        for name, place in {**self._origins, **channel.strange_origins(_order)}.items():
            self._emit("origin", name=name, path=place)
        for what, place in sorted(self.watch.end().items()):
            self._emit("patched", name=what, path=place)
        self._emit("end", status=int(session.exitstatus))


_kept = originals.Originals(
    _order,
    (*originals.PYTEST, *originals.UNITTEST),
    (sys.modules[__name__], channel, originals, recording, replaying, tracing, watching),
)
