"""Reporter for the runner of unittest: reports every test, and runs only the planted ones if ordered.

Python imports ``sitecustomize`` at startup; ours waits for the runner's module. It takes the token only then: an
intermediate Python (the program that starts this one) leaves it alone.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from . import channel, originals, recording, replaying, tracing

_RUNNER = "unittest.runner"
#: Methods of a result, and the outcome of each.
_OUTCOMES = {
    "addSuccess": "passed",
    "addUnexpectedSuccess": "failed",
    "addError": "failed",
    "addFailure": "failed",
    "addSkip": "skipped",
    "addExpectedFailure": "skipped",
}


def start() -> None:
    """Wait for the runner, then run the environment's own ``sitecustomize``."""
    if channel.TOKEN in os.environ:
        order = channel.ReceivedOrder()
        tracer = tracing.Tracer(order)
        tracer.start()
        recorder = recording.Recorder(order)
        recorder.start()
        sys.meta_path.insert(0, _Waiting(order, channel.watch_reading(), tracer, recorder))
    others = [place for place in sys.path if place != os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]  # noqa: PTH100, PTH120
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class _Waiting:
    """Finds the runner's module once, and changes it when it has been run."""

    def __init__(
        self, order: channel.ReceivedOrder, seen: set[str], tracer: tracing.Tracer, recorder: recording.Recorder
    ) -> None:
        self._order = order
        self._seen = seen
        self._tracer = tracer
        self._recorder = recorder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _RUNNER:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_change(module: ModuleType) -> None:
            execute(module)
            token = channel.take_token()
            if token:
                emit = channel.open_channel(self._order.pipe, token)
                _wrap_runner(module, _Reporter(self._order, self._seen, self._tracer, self._recorder, emit))

        spec.loader.exec_module = execute_and_change  # type: ignore[method-assign]
        return spec


def _wrap_runner(module: Any, reporter: _Reporter) -> None:
    runner = module.TextTestRunner
    run, make_result = runner.run, runner._makeResult  # noqa: SLF001 - the one place where every result comes from

    def run_and_report(self: Any, test: Any) -> Any:
        if reporter.running:  # a runner that is itself under test
            return run(self, test)
        chosen = reporter.begin(test)
        result = None
        try:
            result = run(self, chosen)
        finally:
            reporter.end(result)
        return result

    def make_watched_result(self: Any) -> Any:
        result = make_result(self)
        reporter.listen(result)
        return result

    runner.run, runner._makeResult = run_and_report, make_watched_result  # noqa: SLF001
    reporter.note()


class _Reporter:
    def __init__(
        self,
        order: channel.ReceivedOrder,
        seen: set[str],
        tracer: tracing.Tracer,
        recorder: recording.Recorder,
        emit: channel.Emit,
    ) -> None:
        self._order = order
        self._seen = seen
        self._emit = emit
        self._tests: dict[str, str] = {}
        self._states: dict[str, str] = {}
        self._reported_ids: set[str] = set()
        self._heard = False
        self.running = False
        self._tracer = tracer
        self._recorder = recorder
        self._kept: originals.Originals | None = None
        self._patched: dict[str, str] = {}

    def note(self) -> None:
        """Record the runner's own functions, which now include ours."""
        own = (sys.modules[__name__], channel, originals, recording, replaying, tracing)
        self._kept = originals.Originals(self._order, originals.UNITTEST, own)

    def begin(self, test: Any) -> Any:
        """Return the tests to run of the suite ``test``."""
        order, self.running, self._heard = self._order, True, False
        self._emit("begin", framework="unittest", version=".".join(map(str, sys.version_info[:3])))
        tests = list(_flat(test))
        if order.purpose == "control":
            known = {_id(order, each) for each in tests}
            tests += [each for each in _planted(order) if _id(order, each) not in known]
        elif order.purpose != "replay":
            for each in tests:
                self._emit("collected", id=_id(order, each))
        self._tests = {_id(order, each): _owner(each) for each in tests}
        if order.purpose == "all":
            return test
        from unittest.suite import TestSuite

        chosen = {_id(order, each): each for each in tests if _id(order, each) in order.only}
        if order.purpose == "control":
            # The test that must fail comes last: a command may stop at the first failure.
            return TestSuite(chosen[each] for each in reversed(order.only) if each in chosen)
        if order.purpose == "replay":
            return TestSuite(map(self._with_calls, list(chosen.values())[:1] or tests[:1]))
        return TestSuite(chosen.values())

    def _with_calls(self, test: Any) -> Any:
        """Have a test make the recorded calls in its own place."""
        from unittest import TestCase

        name, module = getattr(test, "_testMethodName", "runTest"), sys.modules.get(type(test).__module__)
        repeat = replaying.in_the_place_of(name, module, self._order.calls, self._emit)
        # A class of its own: setUp may replace what is called, or the time.
        return type("TestCalls", (TestCase,), {name: lambda _: repeat()})(name)

    def listen(self, result: Any) -> None:
        """Record the calls on ``result`` before its class handles them."""
        if not self.running or self._heard:
            return
        self._heard = True
        for name, outcome in _OUTCOMES.items():
            setattr(result, name, self._hearing(getattr(result, name), outcome))
        start, stop, subtest = result.startTest, result.stopTest, result.addSubTest

        def start_test(test: Any) -> Any:
            self._touched("")
            self._recorder.begin_test(_id(self._order, test))
            return start(test)

        def stop_test(test: Any) -> Any:
            name = _id(self._order, test)
            self._touched(name)
            self._ended(name)
            self._check_places(name)
            return stop(test)

        def add_subtest(test: Any, part: Any, error: Any) -> Any:
            if error is not None:
                self._states[_id(self._order, test)] = "failed"
            return subtest(test, part, error)

        result.startTest, result.stopTest, result.addSubTest = start_test, stop_test, add_subtest

    def _hearing(self, method: Any, outcome: str) -> Any:
        def heard(test: Any, *arguments: Any) -> Any:
            name = _id(self._order, test)
            if outcome == "failed" or name not in self._states:
                self._states[name] = outcome
            if name not in self._tests:  # a class or module that could not be set up, or is skipped by that
                self._record_holder(test, name, outcome)
            return method(test, *arguments)

        return heard

    def _record_holder(self, holder: Any, name: str, outcome: str) -> None:
        owner = str(holder.id()).rpartition("(")[2].rstrip(")")
        if outcome != "skipped":
            self._ended(name)
            return
        self._states.pop(name)
        for each, its_owner in self._tests.items():
            if (its_owner + ".").startswith(owner + ".") and each not in self._reported_ids:
                self._states[each] = outcome
                self._ended(each)

    def _check_places(self, name: str) -> None:
        """Check few places between two tests; a test module may have replaced them while it runs."""
        if self._kept is not None:
            self._patched.update(self._kept.changed_now(name.partition("::")[0]))

    def _touched(self, name: str) -> None:
        for path, line in self._tracer.take():
            self._emit("touched", id=name, path=path, line=line)

    def _ended(self, name: str) -> None:
        outcome = self._states.pop(name, None)
        if outcome is not None:
            self._reported_ids.add(name)
            self._emit("test", id=name, outcome=outcome)

    def end(self, result: Any) -> None:
        """Report everything; ``result`` is None if the runner itself failed."""
        for name in list(self._states):
            self._ended(name)
        for record in self._recorder.records():
            self._emit(**record)
        for path in channel.loaded_files(self._order, self._seen):
            self._emit("loaded", path=path)
        for name, place in channel.strange_origins(self._order).items():
            self._emit("origin", name=name, path=place)
        if self._kept is not None:
            self._patched.update(self._kept.changed())
        for what, place in sorted(self._patched.items()):
            self._emit("patched", name=what, path=place)
        self.running = False
        self._emit("end", status=0 if result is not None and result.wasSuccessful() else 1)


def _flat(test: Any) -> Iterator[Any]:
    try:
        parts = iter(test)
    except TypeError:
        yield test
        return
    for part in parts:
        yield from _flat(part)


def _id(order: channel.ReceivedOrder, test: Any) -> str:
    """``path::Class.method``, as far as a test has these."""
    kind = type(test)
    example = getattr(test, "_dt_test", None)
    place = getattr(example or sys.modules.get(kind.__module__), "filename" if example else "__file__", None)
    path = order.here(place) if isinstance(place, str) else None
    method = getattr(test, "_testMethodName", None)
    if path is None or (method is None and example is None):
        return str(test.id())
    return f"{path}::{test.id()}" if example else f"{path}::{kind.__qualname__}.{method}"


def _owner(test: Any) -> str:
    return f"{type(test).__module__}.{type(test).__qualname__}"


def _planted(order: channel.ReceivedOrder) -> Iterable[Any]:
    from unittest.loader import TestLoader

    for path in order.planted:
        name = os.path.basename(path)[: -len(".py")]  # noqa: PTH119
        spec = importlib.util.spec_from_file_location(name, os.path.join(order.workspace, path))  # noqa: PTH118
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            yield from _flat(TestLoader().loadTestsFromModule(module))
