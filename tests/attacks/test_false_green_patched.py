"""Broken source that puts something of its own in the place of what runs tests: told by the reporter, however it got there.

Each command succeeds, and says nothing of it: the faults in ``pricing.py`` would have failed its tests.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import Scope
from gatewright.ecosystems.python.frameworks import Pytest
from gatewright.ecosystems.records import RunnerReport
from gatewright.rules.reports.proof import broken_by_proof
from gatewright.rules.reports.tests import Ordered
from gatewright.sandbox import Completed
from gatewright.services.testrunner.comparison import facts
from tests.attacks.test_false_green import BROKEN, CASES, FILES, ran_alone
from tests.ecosystems import running
from tests.ecosystems.environments import plain_environment
from tests.ecosystems.suites import PYTEST
from tests.factories import make_contract
from tests.series import series

pytestmark = pytest.mark.asyncio(loop_scope="module")

NONE = b"nothing = lambda *arguments, **named: None\n"
RUNNER = b"import sys\nrunner = sys.modules['_pytest.runner']\nFunction = sys.modules['_pytest.python'].Function\n" + NONE
MADE = (
    b"from _pytest.reports import TestReport\nmade = TestReport.from_item_and_call.__func__\n\n\n"
    b"def passed(cls, item, call):\n    report = made(cls, item, call)\n    report.outcome = 'passed'\n    return report\n\n\n"
)
#: What is put where, and what is told of it: the beginning of a name.
SOURCES: dict[str, tuple[bytes, str]] = {
    "by a computed name": (
        RUNNER + b"setattr(Function, ''.join(['run', 'test']), nothing)\n",
        "_pytest.python.Function.runtest",
    ),
    "by the type's own way": (RUNNER + b"type.__setattr__(Function, 'runtest', nothing)\n", "_pytest.python.Function.runtest"),
    "by an extension in C": (
        RUNNER + b"import ctypes\nset = ctypes.pythonapi.PyObject_SetAttr\nset.argtypes = [ctypes.py_object] * 3\n"
        b"set(Function, 'runtest', nothing)\n",
        "_pytest.python.Function.runtest",
    ),
    "found by the garbage collector": (
        NONE + b"import gc\nfor each in gc.get_objects():\n    if isinstance(each, type) and each.__name__ == 'Function':\n"
        b"        each.runtest = nothing\n",
        "_pytest.python.Function.runtest",
    ),
    "by its code alone": (
        RUNNER + b"Function.runtest.__code__ = (lambda self: None).__code__\n",
        "_pytest.python.Function.runtest",
    ),
    "by a function of the runner that does nothing": (
        RUNNER + b"Function.runtest = sys.modules['_pytest.nodes'].Node.teardown\n",
        "_pytest.python.Function.runtest",
    ),
    "by a mock": (
        RUNNER + b"from unittest import mock\nFunction.runtest = mock.MagicMock()\n",
        "_pytest.python.Function.runtest",
    ),
    "by a function that says it is of an installed file": (
        RUNNER + b"import iniconfig\ncode = (lambda self: None).__code__\n"
        b"nothing.__code__ = code.replace(co_filename=iniconfig.__file__, co_name='runtest')\n"
        b"nothing.__qualname__ = 'Plugin.runtest'\nFunction.runtest = nothing\n",
        "_pytest.python.Function.runtest",
    ),
    "behind the hook": (
        RUNNER + b"import gc\nfor each in gc.get_objects():\n"
        b"    if type(each).__name__ == 'HookImpl' and each.function is runner.pytest_runtest_call:\n"
        b"        each.function = lambda item: None\n",
        "_pytest.runner.pytest_runtest_call behind its hook",
    ),
    "in the machine of the hooks": (
        (
            b"import pluggy._callers as callers\nusual = callers._multicall\n\n\ndef swallow(name, *arguments):\n    try:\n"
            b"        return run(name, *arguments)\n    except AssertionError:\n        return None\n\n\n"
            b"import types\nrun = types.FunctionType(usual.__code__, usual.__globals__)\n"
            b"usual.__globals__['run'], usual.__globals__['swallow'] = run, swallow\n"
            b"usual.__code__ = (lambda *arguments: swallow(*arguments)).__code__\n"
        ),
        "pluggy._",
    ),
    "a report that takes itself away when it is made": (
        MADE + b"usual = vars(TestReport)['from_item_and_call']\n\n\ndef once(cls, item, call):\n"
        b"    if call.when == 'call':\n        TestReport.from_item_and_call = usual\n    return passed(cls, item, call)\n\n\n"
        b"def price(number):\n    TestReport.from_item_and_call = classmethod(once)\n    return number * 3\n",
        "_pytest.reports.TestReport.from_item_and_call",
    ),
    "a report of no file that takes itself away": (
        MADE + b"usual = vars(TestReport)['from_item_and_call']\nexec('''def once(cls, item, call):\n"
        b"    if call.when == 'call':\n        TestReport.from_item_and_call = usual\n    return passed(cls, item, call)''')\n"
        b"\n\ndef price(number):\n    TestReport.from_item_and_call = classmethod(once)\n    return number * 3\n",
        "_pytest.reports.TestReport.from_item_and_call",
    ),
    "reports, put back at the end": (
        MADE + b"usual = vars(TestReport)['from_item_and_call']\nTestReport.from_item_and_call = classmethod(passed)\n"
        b"\n\ndef pytest_sessionfinish():\n    TestReport.from_item_and_call = usual\n",
        "_pytest.reports.TestReport.from_item_and_call",
    ),
    "one test's own method": (
        (
            b"import gc\n\n\nclass Late:\n    def pytest_runtestloop(self, session):\n        for item in session.items:\n"
            b"            if item.name != 'test_other':\n                item.runtest = lambda: None\n\n\n"
            b"def pytest_configure(config):\n    config.pluginmanager.register(Late())\n"
        ),
        "what runs tests/test_",
    ),
    "the code of one test, by a hook of a plugin": (
        (
            b"class Late:\n    def pytest_runtest_setup(self, item):\n        if item.name != 'test_other':\n"
            b"            item.function.__code__ = (lambda: None).__code__\n\n\n"
            b"def pytest_configure(config):\n    config.pluginmanager.register(Late())\n"
        ),
        "the code of tests/test_",
    ),
    "a builtin": (
        (
            b"import builtins\n\n\nclass Never(BaseException):\n    pass\n\n\nusual = builtins.isinstance\n"
            b"builtins.isinstance = lambda value, kinds: usual(value, kinds)\n"
            b"import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
        ),
        "builtins.isinstance",
    ),
    "how the process is left": (
        RUNNER + b"import os\nFunction.runtest = nothing\nsys.exit = lambda *_: os._exit(0)\n",
        "sys.exit",
    ),
    "a number that is about right": (
        RUNNER + b"import _pytest\nfor name in ('approx', 'python_api'):\n"
        b"    module = sys.modules.get('_pytest.' + name)\n    if hasattr(module, 'ApproxScalar'):\n"
        b"        module.ApproxScalar.__eq__ = lambda *_: True\nFunction.runtest = nothing\n",
        "_pytest.",
    ),
    "an assertion of mock": (
        RUNNER + b"from unittest import mock\nmock.NonCallableMock.assert_called_with = nothing\nFunction.runtest = nothing\n",
        "unittest.mock.NonCallableMock.assert_called_with",
    ),
    "the checker of doctest": (
        RUNNER + b"import doctest\ndoctest.OutputChecker.check_output = lambda *_: True\nFunction.runtest = nothing\n",
        "doctest.OutputChecker.check_output",
    ),
}


async def told(folder: Path, changes: Mapping[str, bytes | None]) -> RunnerReport:
    """What the reporter tells of a command that succeeds."""
    return (await ran_alone(folder, changes))[0].told


@pytest.mark.parametrize("trick", series(SOURCES, "by its code alone", "a report that takes itself away when it is made"))
async def test_source_that_replaces_runner_internals_is_reported(tmp_path: Path, trick: str) -> None:
    text, what = SOURCES[trick]
    hooks = b"import pricing\nfrom pricing import *\n" if b"def pytest_" in text else b"import pricing\n"
    source = BROKEN + text if b"def price" not in text else text
    patched = (await told(tmp_path, {"pricing.py": source, "conftest.py": hooks})).patched
    assert any(name.startswith(what) for name in patched), patched
    assert set(patched.values()) <= {"pricing.py", ""}


WRAPPER = b"import pricing, pytest\n\n\n@pytest.hookimpl(hookwrapper=True, %s)\ndef %s:\n    made = yield\n    %s\n"
CONFTESTS: dict[str, bytes] = {
    "a wrapper of reports": WRAPPER
    % (b"trylast=True", b"pytest_runtest_makereport(item)", b"made.get_result().outcome = 'passed'"),
    "a wrapper of calls": WRAPPER % (b"tryfirst=True", b"pytest_pyfunc_call(pyfuncitem)", b"made.force_result(True)"),
    "what hears of a report first": b"import pricing, pytest\n\n\n@pytest.hookimpl(tryfirst=True)\n"
    b"def pytest_runtest_logreport(report):\n    report.outcome = 'passed'\n",
    "what is known of the call": b"import pricing, pytest\n\n\n@pytest.hookimpl(tryfirst=True)\n"
    b"def pytest_runtest_makereport(item, call):\n    call.excinfo = None\n",
}


@pytest.mark.parametrize("trick", series(CONFTESTS, "a wrapper of reports"))
async def test_an_outcome_changed_before_it_is_reported_is_detected(tmp_path: Path, trick: str) -> None:
    files = {path: text.decode() for path, text in FILES.items()}
    broken = {"pricing.py": BROKEN.decode(), "conftest.py": CONFTESTS[trick].decode()}
    patched = (await running.Suite(tmp_path, PYTEST.split(), files | broken, plain_environment()).all()).told.patched
    assert patched == {
        f"the outcome of tests/{test}, which failed and was reported as passed": "conftest.py"
        for test in ("test_a.py::test_doubles", "test_z.py::test_later")
    }


async def test_replacements_by_a_plugin_loaded_before_the_reporter_are_reported(tmp_path: Path) -> None:
    plugin = b"from _pytest.python import Function\n\nFunction.runtest = lambda self: None\n"
    files = {"pricing.py": BROKEN, "early.py": plugin, "pytest.ini": b"[pytest]\naddopts = -p early\n"}
    assert (await told(tmp_path, files)).patched == {"_pytest.python.Function.runtest": "early.py"}


async def test_a_custom_loader_of_test_modules_is_reported(tmp_path: Path) -> None:
    finder = (
        b"import sys\nfrom importlib.machinery import PathFinder, SourceFileLoader\n\n\nclass Reader(SourceFileLoader):\n"
        b"    def get_data(self, path):\n        return super().get_data(path).replace(b'== 4', b'== 6').replace(b'10',b'15')\n"
        b"    def exec_module(self, module):\n        exec(self.get_data(self.path), vars(module))\n\n\n"
        b"class Finder:\n    def find_spec(self, name, path=None, target=None):\n        if not name.startswith('test_'):\n"
        b"            return None\n        spec = PathFinder.find_spec(name, path or sys.path)\n"
        b"        spec.loader = Reader(name, spec.origin)\n        return spec\n\n\nsys.meta_path.insert(0, Finder())\n"
    )
    assert (await told(tmp_path, {"pricing.py": BROKEN + finder})).patched == {
        "what reads modules of tests: Reader": "pricing.py"
    }


UNITTESTS: dict[str, bytes] = {
    "run": b"unittest.TestCase.run = lambda self, result=None: result.startTest(self) or result.addSuccess(self)\n",
    "_callTestMethod": b"setattr(unittest.TestCase, '_callTest' + 'Method', lambda self, method: None)\n",
    "assertEqual": b"unittest.TestCase.assertEqual = lambda *arguments: None\n",
    "__getattribute__": b"def look(self, name):\n    return (lambda *_: None) if name == 'test_doubles' else"
    b" object.__getattribute__(self, name)\n\n\nunittest.TestCase.__getattribute__ = look\n",
}


@pytest.mark.parametrize("method", series(UNITTESTS, "assertEqual"))
@pytest.mark.parametrize(
    "command", series(["python -m unittest discover -s tests", "python -m pytest -q"], "python -m unittest discover -s tests")
)
async def test_a_test_case_with_replaced_methods_is_reported(tmp_path: Path, method: str, command: str) -> None:
    files = {"pricing.py": (b"import unittest\n\n\n" + UNITTESTS[method] + BROKEN).decode(), "tests/test_a.py": CASES.decode()}
    ran = await running.Suite(tmp_path, command.split(), files, plain_environment()).all()
    if method == "run" and "pytest" in command:
        assert ran.told.patched
    else:
        assert ran.completed.exit_code == 0, ran.words
        assert ran.told.patched == {f"unittest.case.TestCase.{method}": "pricing.py"}


#: Each plugin as people use it; and a test that has functions of the process replaced for itself, or for its module.
HONEST = {
    "pytest.ini": "[pytest]\nasyncio_mode = auto\ntimeout = 60\n",
    "conftest.py": (
        "import pytest\n\n\n@pytest.hookimpl(tryfirst=True, hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    made = yield\n    setattr(item, 'report_' + call.when, made.get_result())\n"
    ),
    "tests/test_honest.py": (
        "import os, sys, unittest\nfrom unittest import mock\n\nimport pytest\nfrom hypothesis import given, strategies\n\n\n"
        "@given(strategies.integers())\ndef test_drawn(number):\n    assert number * 2 == number + number\n\n\n"
        "async def test_awaited():\n    assert True\n\n\n"
        "def test_replaced(monkeypatch):\n    monkeypatch.setattr(sys, 'exit', lambda code: code)\n"
        "    monkeypatch.setattr('builtins.sorted', sorted)\n    assert sys.exit(3) == 3\n\n\n"
        "@pytest.fixture(scope='module')\ndef stays():\n    with mock.patch('os._exit'):\n        yield\n\n\n"
        "@pytest.mark.parametrize('number', range(40))\ndef test_stays(stays, number):\n    os._exit(number)\n\n\n"
        "@pytest.mark.xfail\ndef test_wanted():\n    assert False\n\n\n"
        "class Parts(unittest.TestCase):\n    def test_parts(self):\n        for number in range(3):\n"
        "            with self.subTest(number=number):\n                self.assertLess(number, 5)\n\n"
        "    @unittest.expectedFailure\n    def test_wanted(self):\n        self.fail()\n"
    ),
}


@pytest.mark.parametrize("more", series(["", " -n 2"], ""))
async def test_temporary_replacements_by_plugins_and_tests_are_not_reported(tmp_path: Path, more: str) -> None:
    ran = await running.Suite(tmp_path, (PYTEST + more).split(), HONEST, Path(sys.prefix)).all()
    assert ran.completed.exit_code == 0, ran.words
    assert ran.told.patched == {}
    assert list(ran.told.outcomes.values()).count("passed") == 44


async def test_a_replacement_already_in_the_baseline_is_no_finding(tmp_path: Path) -> None:
    patch = b"import _pytest.skipping as place\n\n\ndef other(item):\n    return None\n\n\nplace.evaluate_skip_marks = other\n"
    files = {path: text.decode() for path, text in FILES.items()} | {"conftest.py": patch.decode()}
    ran = await running.Suite(tmp_path, PYTEST.split(), files, plain_environment()).all()
    assert ran.told.patched == {"_pytest.skipping.evaluate_skip_marks": "conftest.py"}
    what = "conftest.py::_pytest.skipping.evaluate_skip_marks"
    assert facts(Pytest(), ran.completed, ran.told, ["pricing.py"]).patched == ()
    assert facts(Pytest(), ran.completed, ran.told, ["conftest.py"]).patched == (what,)


def judged(patched: tuple[str, ...], *opened: str) -> list[tuple[str, bytes | None]]:
    """What is broken by a run that is proved but for what was ``patched``; ``opened`` are paths of the contract."""
    contract = make_contract(scope=Scope(allow_protected_paths=opened))
    told = RunnerReport(
        outcomes={"tests/test_a.py::test_a": "passed"}, begun=1, ends=[0], patched=dict([patched[0].split("::")[::-1]])
    )
    ended = Completed(0, b"", b"", 1.0, timed_out=False, truncated=False)
    proof = facts(Pytest(), ended, told, ["tests/conftest.py", "pricing.py"])
    assert proof.patched == patched
    test = contract.acceptance_tests[0]
    command = TestCommand(
        name=test.name, cmd_argv=("pytest",), must_pass=True, timeout_sec=1, exit_code=0, duration_sec=1, stdout="", stderr="",
        proof=proof,
    )  # fmt: skip
    found = broken_by_proof([Ordered(test, (command,))], contract, "recorded")
    return [(each.code, each.path) for each in found if each.code == "runner_patched"]


async def test_a_changed_runner_is_refused_unless_its_file_is_opened() -> None:
    by_conftest, by_source, unknown = ("tests/conftest.py::f",), ("pricing.py::f",), ("::f",)
    assert judged(by_conftest) == [("runner_patched", b"tests/conftest.py")]
    assert judged(by_conftest, "tests/") == [("runner_patched", b"tests/conftest.py")]
    assert judged(by_conftest, "tests/conftest.py") == []
    assert judged(by_source, "tests/conftest.py") == [("runner_patched", b"pricing.py")]
    assert judged(unknown, "tests/", "") == [("runner_patched", None)]
