"""Broken source that reaches into the interpreter, the reporter or pytest while its tests run; judged by the real gate.

Each command succeeds, so that its exit code alone would have let the fault land.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Scope
from gatewright.services.reviewer.checks.evasion import evasion
from gatewright.services.reviewer.subject import Subject
from tests.attacks.test_false_green import BROKEN, FILES, SOURCE, assert_untold, verdict
from tests.ecosystems.suites import Suite
from tests.factories import make_contract
from tests.reviewer.test_checks import changed
from tests.series import series

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """One for all tricks, as a test runner's life is: what it found out about the baseline it remembers."""
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


def ends(how: str) -> bytes:
    """Source whose only function ends the process in some way."""
    return f"def price(number):\n    {how}\n    return number * 3\n".encode()


#: Takes a hook of pytest's for two tests, and no planted one, by way of what the frames of the runner hold.
SWALLOWS = (
    b"import sys\n\n\nclass Swallows:\n    def pytest_pyfunc_call(self, pyfuncitem):\n"
    b"        return True if pyfuncitem.name in ('test_doubles', 'test_later') else None\n\n\n"
    b"def register(name):\n    frame = sys._getframe()\n"
    b"    while frame is not None and not hasattr(frame.f_locals.get(name), 'config'):\n        frame = frame.f_back\n"
    b"    if frame is not None:\n        frame.f_locals[name].config.pluginmanager.register(Swallows())\n\n\n"
)
SOURCE_TRICKS: dict[str, tuple[bytes, str]] = {
    "the reporter is found by the garbage collector, and made to tell an end": (
        b"import gc, os\n" + ends("finish()") + b"\n\ndef finish():\n"
        b"    emits = [one for one in gc.get_objects() if getattr(one, '__qualname__', '') == 'open_channel.<locals>.emit']\n"
        b"    for each in emits:\n        each('end', status=0)\n"
        b"    os._exit(0 if emits else 3)\n",  # 3: the attack did not find its target, and shows nothing
        "report_missing",
    ),
    "the reporter is found by the garbage collector, and made to tell that all passed": (
        b"import gc\nimport _pytest.main\n\n\ndef logreport(self, report):\n    self._states[report.nodeid] = 'passed'\n\n\n"
        b"for each in gc.get_objects():\n"
        b"    if isinstance(each, type) and each.__name__ == '_Reporter':\n"
        b"        each.pytest_runtest_logreport = logreport\n"
        b"_pytest.main.Session.testsfailed = property(lambda self: 0, lambda self, number: None)\n" + BROKEN,
        "runner_patched",
    ),
    "no file can be opened any more": (
        b"import os, resource\n"
        + ends("resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); finish()")
        + b"\n\ndef finish():\n    import atexit\n    atexit.register(os._exit, 0)\n",
        "report_missing",
    ),
    "every descriptor is closed": (b"import os\n" + ends("os.closerange(0, 4096); os._exit(0)"), "report_missing"),
    "the process sends itself a signal": (
        b"import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: os._exit(0))\n"
        + ends("os.kill(os.getpid(), signal.SIGUSR1)"),
        "report_missing",
    ),
    "the process is ended when it collects garbage": (
        b"import os, weakref\n\n\nclass Held: pass\n\n\nheld = Held()\nweakref.finalize(held, os._exit, 0)\n" + BROKEN,
        "report_missing",
    ),
    "the hook for exceptions of threads ends the process": (
        b"import os, threading\n"
        + ends("import threading; threading.excepthook = lambda *_: os._exit(0); start()")
        + b"\n\ndef start():\n    thread = threading.Thread(target=lambda: 1 / 0)\n    thread.start()\n    thread.join()\n",
        "report_missing",
    ),
    "a trace function skips tests": (
        (
            b"import sys\n\n\ndef trace(frame, event, argument):\n"
            b"    if frame.f_code.co_name.startswith('test_') and frame.f_code.co_name != 'test_other':\n"
            b"        import pytest\n        pytest.skip('not now')\n\n\nsys.settrace(trace)\n\n\n"
            b"def price(number):\n    sys.settrace(trace)\n    return number * 3\n"
        ),
        "tests_not_alive",
    ),
    "what calls a test is replaced in pytest's own runner": (
        b"import _pytest.runner as runner\nmade = runner.CallInfo.from_call.__func__\n\n\n"
        b"def from_call(cls, func, when, reraise=None):\n    call = made(cls, func, when, reraise)\n"
        b"    object.__setattr__(call, 'excinfo', None)\n    return call\n\n\n"
        b"runner.CallInfo.from_call = classmethod(from_call)\n" + BROKEN,
        "runner_patched",
    ),
    "a module by a key that is put together": (
        b"import sys\n\nplace = getattr(sys.modules[''.join(('_py', 'test.python'))], 'Function')\n"
        b"place.runtest = lambda self: None\n" + BROKEN,
        "runner_patched",
    ),
    "a plugin that is registered by a test swallows the calls of a later one": (
        SWALLOWS
        + b"calls = []\n\n\ndef price(number):\n    if calls:\n        return number * 3\n"
        + b"    calls.append(number)\n    register('item')\n    return number * 2\n",
        "runner_patched",
    ),
    "a plugin that is registered when tests are collected swallows their calls": (
        SWALLOWS
        + b"def tripled(number):\n    return number * 3\n\n\n"
        + b"def __getattr__(name):\n    if name != 'price':\n        raise AttributeError(name)\n"
        + b"    register('session')\n    return tripled\n",
        "runner_patched",
    ),
    "an import hook replaces pytest's own runner": (
        b"import sys\n\n\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        b"        runner = sys.modules.get('_pytest.runner')\n        if runner is not None:\n"
        b"            runner.pytest_runtest_call = lambda item: None\n"
        b"            sys.modules['_pytest.python'].Function.runtest = lambda self: None\n        return None\n\n\n"
        b"sys.meta_path.insert(0, Finder())\n" + BROKEN,
        "runner_patched",
    ),
    "a filter of warnings ends the process": (
        b"import os, warnings\n\n\nclass Filter:\n    def match(self, text):\n        os._exit(0)\n\n\n"
        + ends("warn()")
        + b"\n\ndef warn():\n    warnings.filters.insert(0, ('ignore', Filter(), Warning, None, 0))\n"
        + b"    warnings._filters_mutated()\n    warnings.warn('x')\n",
        "report_missing",
    ),
    "assertions that fail are skips": (
        b"import builtins\nfrom _pytest.outcomes import Skipped\nbuiltins.AssertionError = Skipped\n" + BROKEN,
        "runner_patched",
    ),
    "failures are not counted": (
        b"import _pytest.main\nnone = property(lambda self: 0, lambda self, number: None)\n"
        b"_pytest.main.Session.testsfailed = none\n" + BROKEN,
        "runner_patched",
    ),
    "the parent of the tests is killed": (
        b"import os, signal\n" + ends("os.kill(os.getppid(), signal.SIGKILL); os._exit(0)"),
        "report_missing",
    ),
}


#: Ways to end a process with success; the first trick goes through the gate as well.
ENDINGS = (
    "no file can be opened any more",
    "every descriptor is closed",
    "the process sends itself a signal",
    "the process is ended when it collects garbage",
    "the hook for exceptions of threads ends the process",
    "a filter of warnings ends the process",
    "the parent of the tests is killed",
)


@pytest.mark.parametrize("trick", series(ENDINGS, "every descriptor is closed", "the parent of the tests is killed"))
async def test_source_that_exits_with_success_leaves_an_incomplete_report(tmp_path: Path, trick: str) -> None:
    text, code = SOURCE_TRICKS[trick]
    assert code == "report_missing"
    await assert_untold(tmp_path, {"pricing.py": text})


@pytest.mark.parametrize(
    "trick",
    series(
        [trick for trick in SOURCE_TRICKS if trick not in ENDINGS], "a trace function skips tests", "failures are not counted"
    ),
)
async def test_source_that_reaches_into_its_test_run_is_refused(suite: Suite, tmp_path: Path, trick: str) -> None:
    text, code = SOURCE_TRICKS[trick]
    report = await verdict(suite, tmp_path, {"pricing.py": text})
    assert (report.verdict, report.code) == ("FAIL", code), report.summary


CONFTEST_TRICKS: dict[str, tuple[bytes, str]] = {
    "pytest is started again with options from the environment": (
        (
            b"import os, sys\nif 'PYTEST_ADDOPTS' not in os.environ:\n    os.environ['PYTEST_ADDOPTS'] = '-k other'\n"
            b"    os.execv(sys.executable, [sys.executable, '-m', 'pytest', '-q'])\n"
        ),
        "report_missing",
    ),
    "the tests run in a child whose exit code is dropped": (
        b"import os\nif os.fork():\n    os.wait()\n    os._exit(0)\n",
        "report_missing",
    ),
    "the tests run twice, in a parent and in a child that ends well": (
        b"import atexit, os\nif os.fork():\n    os.wait()\natexit.register(os._exit, 0)\n",
        "report_missing",
    ),
    "the exit code is dropped when pytest takes its leave": (
        b"import os, pytest\n\n\n@pytest.hookimpl(trylast=True)\ndef pytest_unconfigure():\n    os._exit(0)\n",
        "report_missing",
    ),
}


@pytest.mark.parametrize("trick", series(list(CONFTEST_TRICKS)[1:], "the tests run in a child whose exit code is dropped"))
async def test_a_conftest_that_drops_the_exit_code_leaves_no_report(tmp_path: Path, trick: str) -> None:
    text, code = CONFTEST_TRICKS[trick]
    assert code == "report_missing"
    await assert_untold(tmp_path, {"pricing.py": BROKEN, "conftest.py": text})


@pytest.mark.long
@pytest.mark.parametrize("trick", list(CONFTEST_TRICKS)[:1])
async def test_a_conftest_that_reaches_into_its_test_run_is_refused(suite: Suite, tmp_path: Path, trick: str) -> None:
    text, code = CONFTEST_TRICKS[trick]
    report = await verdict(suite, tmp_path, {"pricing.py": BROKEN, "conftest.py": text})
    assert (report.verdict, report.code) == ("FAIL", code), report.summary


#: What running tests cannot show: see "What remains" in docs/testing.md.
REMAINS: dict[str, bytes] = {
    "it is right where pytest is loaded": b"import sys\n\n\ndef price(number):\n"
    b"    return number * (2 if 'pytest' in sys.modules else 3)\n",
    "it finds the reporter, and lets it tell the truth in the control alone": (
        b"import gc\n\n\ndef price(number):\n    for each in gc.get_objects():\n"
        b"        if type(each).__name__ == 'ReceivedOrder' and getattr(each, 'purpose', '') == 'all':\n"
        b"            return number * 2\n    return number * 3\n"
    ),
}


@pytest.mark.parametrize("trick", series(REMAINS, "it is right where pytest is loaded"))
async def test_the_review_reports_source_that_recognises_the_real_run(suite: Suite, tmp_path: Path, trick: str) -> None:
    report = await verdict(suite, tmp_path, {"pricing.py": REMAINS[trick]}, pack="medium")
    by_behaviour = trick == "it is right where pytest is loaded"
    assert (report.verdict, report.code) == (("FAIL", "behaves_differently_under_test") if by_behaviour else ("PASS", "ok"))
    contract = make_contract(policy_pack="medium", scope=Scope())
    findings = list(evasion(Subject(contract, (changed("pricing.py", SOURCE, REMAINS[trick]),), 1 << 20)))
    assert [(finding.code, finding.blocking) for finding in findings] == [("test_run_evasion", False)]
