"""Broken source that makes its tests succeed: the real test runner in a real sandbox, judged by the real tests gate.

Each trick comes with a fault in ``pricing.py`` that the suite would find. What is disproved is refused under every pack.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.contracts import GateReport
from gatewright.contracts.reports import TestProof
from gatewright.contracts.vocabulary import PolicyPack, TestPurpose
from gatewright.services.testrunner.comparison import facts, lost_tests
from gatewright.view.retry import retry_options
from tests.attacks.real_gate import open_gate
from tests.ecosystems import running
from tests.ecosystems.environments import plain_environment
from tests.ecosystems.suites import PYTEST, Suite
from tests.series import series

pytestmark = pytest.mark.asyncio(loop_scope="module")

BROKEN = b"def price(number):\n    return number * 3\n"
SOURCE = b"def price(number):\n    return number * 2\n"
TESTS = (
    b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n"
    b"\n\ndef test_none():\n    assert not price(0)\n"
)
LATER = b"from pricing import price\n\n\ndef test_later():\n    assert price(5) == 10\n"
CASES = (
    b"import unittest\n\nfrom pricing import price\n\n\nclass PriceTest(unittest.TestCase):\n"
    b"    def test_doubles(self):\n        self.assertEqual(price(2), 4)\n"
)
FILES = {
    "pricing.py": SOURCE,
    "conftest.py": b"import pricing\n",
    "README.md": b"about\n",
    "tests/test_a.py": TESTS,
    "tests/test_z.py": LATER,
    "tests/test_other.py": b"def test_other():\n    assert True\n",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """One for all tricks, as a test runner's life is: what it found out about the baseline it remembers."""
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


async def verdict(
    suite: Suite,
    folder: Path,
    changes: Mapping[str, bytes | None],
    *commands: str,
    pack: PolicyPack = "low",
    purpose: TestPurpose = "change",
) -> GateReport:
    """What the tests gate says of the run; the commands themselves must have succeeded, or nothing was hidden."""
    suite.fixture.artifacts.stored.clear()
    suite.fixture.repository.git("reset", "--quiet", "--hard")
    report = await suite.tested(changes, *commands, policy_pack=pack)
    assert report.status == "PASS", suite.printed(report)
    assert suite.contract is not None
    tests, prefix = suite.contract.acceptance_tests, suite.contract.environment
    suite.fixture.repository.git("checkout", "--quiet", "--force", "--detach", suite.fixture.baseline)
    async with open_gate(
        suite.fixture.repository, folder, acceptance_tests=tests, environment=prefix, policy_pack=pack, tests=purpose
    ) as gate:
        for data in suite.fixture.artifacts.stored.values():
            await gate.bus.put_artifact(data)
        assert report.tree == await gate.compose(gate.patch(changes))
        return await gate.tests(report)


SOURCE_TRICKS = {
    "the process is ended at import": (b"import os\nos._exit(0)\n", "report_missing"),
    "the process is ended by a thread": (
        b"import os, threading\nthreading.Thread(target=os._exit, args=(0,)).start()\n",
        "report_missing",
    ),
    "the exit code is set at exit": (b"import atexit, os\natexit.register(os._exit, 0)\n", "report_missing"),
    "the process is ended by a signal's handler": (
        (
            b"import os, signal\nsignal.signal(signal.SIGALRM, lambda *_: os._exit(0))\n"
            b"signal.setitimer(signal.ITIMER_REAL, 1e-6)\n"
        ),
        "report_missing",
    ),
    "another program takes the place of the tests": (b"import os\nos.execv('/bin/true', ['true'])\n", "report_missing"),
    "the tests go on in a child": (b"import os\nif os.fork():\n    os._exit(0)\n", "report_missing"),
    "pytest itself is asked to end well": (
        b"import pytest\n\n\ndef price(number):\n    pytest.exit('done', returncode=0)\n",
        "report_missing",
    ),
    "a call ends the process": (
        b"import os\n\n\ndef price(number):\n    os._exit(0)\n",
        "report_missing",
    ),
    "modules of tests are skipped": (
        (
            b"import pytest\ndel price\n\n\ndef __getattr__(name):\n    if name == 'price':\n"
            b"        pytest.skip('not now', allow_module_level=True)\n    raise AttributeError(name)\n"
        ),
        "tests_lost",
    ),
    "the runner of a test is replaced": (
        b"import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n",
        "runner_patched",
    ),
    "assertions are taken out when they are rewritten": (
        (
            b"import ast\nfrom _pytest.assertion import rewrite\n\n\nclass Without(ast.NodeTransformer):\n"
            b"    def visit_Assert(self, node):\n        return ast.copy_location(ast.Pass(), node)\n\n\n"
            b"rewrite.AssertionRewriter.run = lambda self, tree: Without().visit(tree)\n"
        ),
        "runner_patched",
    ),
    "reports are made to say that all passed": (
        (
            b"from _pytest.reports import TestReport\nmade = TestReport.from_item_and_call.__func__\n\n\n"
            b"def from_item_and_call(cls, item, call):\n    report = made(cls, item, call)\n    report.outcome = 'passed'\n"
            b"    return report\n\n\nTestReport.from_item_and_call = classmethod(from_item_and_call)\n"
        ),
        "runner_patched",
    ),
    "later tests are rewritten at import": (
        (
            b"for name, test in (('a', 'doubles(): pass\\ndef test_none'), ('z', 'later')):\n"
            b"    open(f'tests/test_{name}.py', 'w').write(f'def test_{test}(): pass\\n')\n"
        ),
        "report_missing",
    ),
    "the pipe is written to": (
        (
            b"import os\nwith open('/gatewright/report', 'wb') as pipe:\n"
            b'    pipe.write(b\'{"kind": "end", "status": 0}\\n\')\nos._exit(0)\n'
        ),
        "report_missing",
    ),
}


#: Ways to end a process with success, which all look the same from outside: what is told stops. Those that are not among them
#: go through the gate as well.
ENDINGS = (
    "the process is ended by a thread",
    "the exit code is set at exit",
    "the process is ended by a signal's handler",
    "another program takes the place of the tests",
    "the tests go on in a child",
    "pytest itself is asked to end well",
    "a call ends the process",
)


#: Those of the others that `make test` plays: one for each way in which they are found out.
ONE_OF_EACH_CODE = ("the process is ended at import", "modules of tests are skipped", "the runner of a test is replaced")


async def ran_alone(folder: Path, changes: Mapping[str, bytes | None]) -> tuple[running.Ran, TestProof]:
    """The command alone on the candidate, where it must succeed, and the facts of it that the gate judges."""
    files = {path: content.decode() for path, content in {**FILES, **changes}.items() if content is not None}
    suite = running.Suite(folder, PYTEST.split(), files, plain_environment())
    ran = await suite.all()
    assert ran.completed.exit_code == 0, ran.words
    return ran, facts(await suite.framework(), ran.completed, ran.told)


async def assert_untold(folder: Path, changes: Mapping[str, bytes | None]) -> None:
    """The command succeeds, and its tests were not told to their end."""
    ran, proof = await ran_alone(folder, changes)
    assert not proof.complete, ran.words


@pytest.mark.parametrize("trick", series(ENDINGS, "the exit code is set at exit", "a call ends the process"))
async def test_source_that_exits_with_success_leaves_an_incomplete_report(tmp_path: Path, trick: str) -> None:
    text, code = SOURCE_TRICKS[trick]
    assert code == "report_missing"
    await assert_untold(tmp_path, {"pricing.py": BROKEN + text})


async def test_the_check_for_missing_outcomes_fails_on_a_complete_suite(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await assert_untold(tmp_path, {})


@pytest.mark.parametrize("trick", series([trick for trick in SOURCE_TRICKS if trick not in ENDINGS], *ONE_OF_EACH_CODE))
async def test_source_that_ends_or_replaces_its_tests_is_refused(suite: Suite, tmp_path: Path, trick: str) -> None:
    text, code = SOURCE_TRICKS[trick]
    report = await verdict(suite, tmp_path, {"pricing.py": BROKEN + text})
    assert (report.verdict, report.code) == ("FAIL", code), report.summary


@pytest.mark.long
async def test_a_test_case_that_runs_nothing_is_refused(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"pricing.py": SOURCE, "tests/test_a.py": CASES})
    trick = b"import unittest\nunittest.TestCase.run = lambda self, result=None: None\n"
    trick += b"unittest.TestCase.__call__ = lambda self, *arguments, **named: None\n"
    report = await verdict(suite, tmp_path, {"pricing.py": trick + BROKEN})
    assert (report.verdict, report.code) == ("FAIL", "runner_patched"), report.summary


CONFTEST_TRICKS = {
    "the exit status is set when the session ends": (
        b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
        "report_missing",
    ),
    "files of tests are not collected": (
        b"collect_ignore = ['tests/test_a.py', 'tests/test_z.py']\n",
        "tests_lost",
    ),
    "tests are taken out after they were collected": (
        b"def pytest_collection_modifyitems(items):\n    items[:] = [item for item in items if item.name == 'test_other']\n",
        "tests_lost",
    ),
    "every test is taken out": (
        (
            b"def pytest_collection_modifyitems(items):\n    items.clear()\n"
            b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
        ),
        "tests_none",
    ),
    "tests are not run": (b"def pytest_runtestloop():\n    return True\n", "report_missing"),
    "calls of tests are swallowed": (b"def pytest_pyfunc_call():\n    return True\n", "tests_not_alive"),
    "outcomes are changed": (
        (
            b"import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n"
            b"    made = yield\n    made.get_result().outcome = 'passed'\n"
        ),
        "runner_patched",
    ),
    "failures are told to be expected": (
        b"import pytest\n\n\ndef pytest_itemcollected(item):\n    item.add_marker(pytest.mark.xfail)\n",
        "tests_not_alive",
    ),
    "our plugin is sent away": (
        (
            b"def pytest_configure(config):\n    for plugin in list(config.pluginmanager.get_plugins()):\n"
            b"        if 'gatewright' in type(plugin).__module__ or 'gatewright' in str(getattr(plugin, '__name__', '')):\n"
            b"            config.pluginmanager.unregister(plugin)\n"
            b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"
        ),
        "runner_patched",
    ),
}


@pytest.mark.parametrize("trick", series(CONFTEST_TRICKS, "every test is taken out", "our plugin is sent away"))
async def test_a_conftest_that_decides_for_the_tests_is_refused(suite: Suite, tmp_path: Path, trick: str) -> None:
    text, code = CONFTEST_TRICKS[trick]
    report = await verdict(suite, tmp_path, {"pricing.py": BROKEN, "conftest.py": text})
    assert (report.verdict, report.code) == ("FAIL", code), report.summary


FILE_TRICKS: dict[str, tuple[dict[str, bytes | None], str]] = {
    "a test is deleted": ({"tests/test_a.py": None, "tests/test_z.py": None}, "tests_lost"),
    "a test is renamed so that it is not collected": (
        {"tests/test_a.py": TESTS.replace(b"test_doubles", b"doubles"), "tests/test_z.py": b""},
        "tests_lost",
    ),
    "a test becomes a text": ({"tests/test_a.py": b'"""' + TESTS + b'"""\n', "tests/test_z.py": b""}, "tests_lost"),
    "a test is skipped": (
        {name: b"import pytest\n\npytestmark = pytest.mark.skip\n" + text for name, text in (("tests/test_a.py", TESTS),)}
        | {"tests/test_z.py": None},
        "tests_lost",
    ),
    "settings select other files": ({"pytest.ini": b"[pytest]\npython_files = test_other.py\n"}, "tests_lost"),
    "settings deselect tests": ({"pytest.ini": b"[pytest]\naddopts = -k other\n"}, "tests_lost"),
    "settings only collect": ({"pytest.ini": b"[pytest]\naddopts = --collect-only\n"}, "report_missing"),
    "settings turn our plugin off": (
        {"pytest.ini": b"[pytest]\naddopts = -p no:gatewright_reporter.pytest_plugin -k other\n"},
        "report_missing",
    ),
    "settings of another kind deselect tests": (
        {"pyproject.toml": b"[tool.pytest.ini_options]\naddopts = '--deselect tests/test_a.py --deselect tests/test_z.py'\n"},
        "tests_lost",
    ),
    "a module takes the name of pytest": ({"pytest.py": b"print('3 passed')\n"}, "environment_shadows_candidate"),
}


#: One of a kind; they go through the gate as well.
THROUGH_THE_GATE = ("a test is deleted", "settings deselect tests", "a module takes the name of pytest")
TOLD_BEFORE = {
    "tests/test_a.py::test_doubles",
    "tests/test_a.py::test_none",
    "tests/test_other.py::test_other",
    "tests/test_z.py::test_later",
}


async def test_an_honest_change_loses_none_of_the_tests_of_the_baseline(tmp_path: Path) -> None:
    ran, proof = await ran_alone(tmp_path, {"README.md": b"more\n"})
    assert (proof.complete, lost_tests(TOLD_BEFORE, ran.told.outcomes)) == (True, [])


@pytest.mark.parametrize(
    "trick",
    series([trick for trick in FILE_TRICKS if trick not in THROUGH_THE_GATE], "a test is skipped", "settings only collect"),
)
async def test_tests_and_settings_that_select_less_lose_tests(tmp_path: Path, trick: str) -> None:
    files, code = FILE_TRICKS[trick]
    ran, proof = await ran_alone(tmp_path, {"pricing.py": BROKEN, **files})
    assert proof.complete is (code == "tests_lost")
    assert lost_tests(TOLD_BEFORE, ran.told.outcomes)


@pytest.mark.parametrize("trick", series(THROUGH_THE_GATE, "settings deselect tests"))
async def test_tests_and_settings_that_select_less_are_refused(suite: Suite, tmp_path: Path, trick: str) -> None:
    files, code = FILE_TRICKS[trick]
    report = await verdict(suite, tmp_path, {"pricing.py": BROKEN, **files})
    assert (report.verdict, report.code) == ("FAIL", code), report.summary


async def test_a_first_command_that_plants_a_conftest_for_the_second_is_refused(suite: Suite, tmp_path: Path) -> None:
    conftest = CONFTEST_TRICKS["outcomes are changed"][0]
    plant = b"open('tests/conftest.py', 'wb').write(" + repr(conftest).encode() + b")\n"
    report = await verdict(suite, tmp_path, {"pricing.py": BROKEN, "plant.py": plant}, "python3 plant.py", PYTEST)
    assert (report.verdict, report.code) == ("FAIL", "report_missing"), report.summary
    assert "tests/conftest.py was changed while the tests ran" in report.summary


async def test_a_command_that_tests_nothing_is_refused_or_marked_unproven(suite: Suite, tmp_path: Path) -> None:
    command = "test -s README.md"
    refused = await verdict(suite, tmp_path, {"pricing.py": BROKEN}, command, pack="medium")
    assert (refused.verdict, refused.code) == ("FAIL", "tests_unproven")
    passed = await verdict(suite, tmp_path / "low", {"pricing.py": BROKEN}, command)
    assert passed.verdict == "PASS"
    assert passed.summary == "passed; suite: unproven: test starts no test framework that is known"


async def test_an_honest_change_passes_under_medium(suite: Suite, tmp_path: Path) -> None:
    report = await verdict(suite, tmp_path, {"tests/test_new.py": LATER.replace(b"later", b"new")}, pack="medium")
    words = "red first: not applicable: the change has tests alone; suite: the baseline's tests on this change: 4 passed"
    assert (report.verdict, report.summary) == ("PASS", f"passed; suite: {words}")


VACUOUS = {
    "pricing.py": SOURCE + b"\n\ndef cost():\n    return 1\n",
    "tests/test_new.py": b"def test_vacuous():\n    assert 1\n",
}
PASSES = (
    "suite: red first: 0 of 1 new or changed tests fail without the change; passes without it: tests/test_new.py::test_vacuous"
)


@pytest.mark.long
async def test_a_vacuous_test_beside_its_change_is_refused_under_high(suite: Suite, tmp_path: Path) -> None:
    report = await verdict(suite, tmp_path, VACUOUS, pack="high")
    assert [(each.code, each.path) for each in report.violations] == [("passes_without_change", "tests/test_new.py")]


async def test_a_characterisation_test_is_recorded_under_high(suite: Suite, tmp_path: Path) -> None:
    report = await verdict(suite, tmp_path, VACUOUS, pack="high", purpose="characterisation")
    assert (report.verdict, report.violations) == ("PASS", ())
    assert f"{PASSES}; the order asks for characterisation tests" in report.summary


async def test_a_vacuous_test_is_recorded_under_medium(suite: Suite, tmp_path: Path) -> None:
    report = await verdict(suite, tmp_path, VACUOUS, pack="medium")
    assert report.verdict == "PASS"
    assert PASSES in report.summary


async def test_no_option_is_offered_for_a_source_that_skips_its_tests(suite: Suite, tmp_path: Path) -> None:
    skips = b"import unittest\n\n\ndef price(number):\n    raise unittest.SkipTest('later')\n"
    report = await verdict(suite, tmp_path, {"pricing.py": skips})
    assert {(each.code, each.path) for each in report.violations} >= {("tests_lost", "tests/test_a.py")}
    assert retry_options(report) == ()


@pytest.mark.long
async def test_no_option_is_offered_for_a_doctest_that_goes_with_its_function(tmp_path: Path) -> None:
    source = b'def kept():\n    """\n    >>> kept()\n    1\n    """\n    return 1\n'
    gone = b'\n\ndef gone():\n    """\n    >>> gone()\n    2\n    """\n    return 2\n'
    settings = b"[pytest]\naddopts = --doctest-modules\n"
    tests = {"tests/test_a.py": b"from mod import kept\n\n\ndef test_kept():\n    assert kept() == 1\n"}
    suite = Suite(tmp_path, {"mod.py": source + gone, "pytest.ini": settings, **tests})
    report = await verdict(suite, tmp_path, {"mod.py": source}, PYTEST)
    assert report.code == "tests_lost"
    assert "mod.py::mod.gone" in report.summary
    assert retry_options(report) == ()
