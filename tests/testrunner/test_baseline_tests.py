"""The baseline's tests on the candidate: run where a change touches what decides what is tested, and told to people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.reports import BaselineTests
from gatewright.rules.reports.proof import Testing, baseline_tests_in_words, broken_by_left_out, in_words
from gatewright.rules.reports.tests import match_commands
from tests.ecosystems.suites import PYTEST, Suite, codes, proof_of
from tests.series import series

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOURCE = b"def price(number):\n    return number * 2\n"
BROKEN = b"def price(number):\n    return number * 3\n"
TESTS = (
    b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n"
    b"\n\ndef test_none():\n    assert not price(0)\n"
)
FILES = {
    "pricing.py": SOURCE,
    "conftest.py": b"import pricing\n",
    "pyproject.toml": b"[project]\nname = 'shop'\n[tool.pytest.ini_options]\naddopts = '-ra'\n",
    "Makefile": f"test:\n\t{PYTEST}\n".encode(),
    "tests/test_a.py": TESTS,
    "tests/test_b.py": b"def test_other():\n    assert True\n",
}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """One for all: what it found out about the baseline it remembers."""
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


async def on_candidate(suite: Suite, changes: Mapping[str, bytes | None], *commands: str) -> BaselineTests:
    """What the baseline's tests came to; the candidate's own must have passed."""
    report = await suite.tested(changes, *commands)
    assert report.status == "PASS", suite.printed(report)
    found = proof_of(report).baseline_tests
    assert found is not None
    assert found.complete is ("tests_unproven" not in codes(suite.judged(report)))
    return found


async def test_a_weakened_test_fails_in_its_baseline_version(suite: Suite) -> None:
    changes = {"pricing.py": BROKEN, "tests/test_a.py": TESTS.replace(b"== 4", b"== 6")}
    report = await suite.tested(changes)
    found = proof_of(report).baseline_tests
    assert found is not None
    assert (found.paths, found.failed) == (("tests/test_a.py",), ("tests/test_a.py::test_doubles",))
    assert (found.complete, found.exit_code) == (True, 1)
    assert in_words(proof_of(report)).endswith(
        "the baseline's tests on this change: 2 passed, 1 failed: tests/test_a.py::test_doubles"
    )
    assert suite.judged(report) == ()


@pytest.mark.long
async def test_deleted_tests_return_and_added_ones_are_absent(suite: Suite) -> None:
    found = await on_candidate(suite, {"tests/test_a.py": None, "tests/test_c.py": TESTS, "pricing.py": SOURCE + b"# said\n"})
    assert found.paths == ("tests/test_a.py", "tests/test_c.py")
    assert baseline_tests_in_words(found) == "the baseline's tests on this change: 3 passed"


async def test_a_change_that_touches_no_test_is_tested_once(suite: Suite) -> None:
    manifest = FILES["pyproject.toml"].replace(b"shop", b"store")
    report = await suite.tested({"pricing.py": SOURCE + b"# said\n", "pyproject.toml": manifest})
    assert proof_of(report).baseline_tests is None


SETTINGS: dict[str, dict[str, bytes | None]] = {
    "conftest.py": {"conftest.py": b"collect_ignore = ['tests/test_a.py']\n"},
    "pytest.ini": {"pytest.ini": b"[pytest]\naddopts = -k other\n"},
    "pyproject.toml": {"pyproject.toml": FILES["pyproject.toml"].replace(b"-ra", b"-k other")},
    "Makefile": {"Makefile": f"test:\n\t{PYTEST} tests/test_b.py\n".encode()},
    "checks.mk": {"Makefile": b"include checks.mk\n", "checks.mk": f"test:\n\t{PYTEST} tests/test_b.py\n".encode()},
}


@pytest.mark.long
@pytest.mark.parametrize("name", series(SETTINGS, "conftest.py", "checks.mk"))
async def test_settings_that_choose_less_are_as_the_baseline_has_them(suite: Suite, name: str) -> None:
    command = "make test" if name in {"Makefile", "checks.mk"} else PYTEST
    found = await on_candidate(suite, {"pricing.py": BROKEN, **SETTINGS[name]}, command)
    assert name in found.paths
    assert found.failed == ("tests/test_a.py::test_doubles",)


@pytest.mark.long
async def test_settings_named_in_the_command_come_from_the_baseline(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {**FILES, "checks.ini": b"[pytest]\naddopts = -ra\n"})
    changes = {"pricing.py": BROKEN, "checks.ini": b"[pytest]\naddopts = -k other\n"}
    found = await on_candidate(suite, changes, f"{PYTEST} -c checks.ini --rootdir .")
    assert (found.paths, found.failed) == (("checks.ini",), ("tests/test_a.py::test_doubles",))


RENAMED = {"pricing.py": SOURCE.replace(b"price", b"cost"), "tests/test_a.py": TESTS.replace(b"price", b"cost")}


@pytest.mark.long
async def test_unimportable_tests_are_reported_and_refuse_nothing(suite: Suite) -> None:
    found = await on_candidate(suite, RENAMED)
    assert baseline_tests_in_words(found) == (
        "the baseline's tests on this change: 0 passed, 1 did not run, the command ended with 2"
    )


@pytest.mark.long
async def test_an_unimportable_conftest_is_reported_and_refuses_nothing(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {**FILES, "conftest.py": b"from pricing import price\n"})
    found = await on_candidate(suite, {**RENAMED, "conftest.py": b"from pricing import cost\n"})
    assert found.counts is None
    assert baseline_tests_in_words(found) == (
        "the baseline's tests on this change: could not be loaded, and the command ended with 4"
    )


@pytest.mark.long
async def test_the_first_tests_of_a_project_have_nothing_to_be_compared_with(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"pricing.py": SOURCE})
    report = await suite.tested({"tests/test_a.py": TESTS})
    assert report.status == "PASS"
    assert proof_of(report).baseline_tests is None


ENDED: dict[str, tuple[bytes, str]] = {
    "the process is ended": (
        b"import os\n    os._exit(1)\n",
        "0 passed, 3 did not run, the command ended with 1; they did not all report an outcome",
    ),
    "the command seems to succeed": (
        b"import os\n    os._exit(0)\n",
        "0 passed, 3 did not run; they did not all report an outcome",
    ),
    "the tests are rewritten": (
        b"import pathlib\n    pathlib.Path('tests/test_a.py').write_text('')\n    return number * 2\n",
        "3 passed; tests/test_a.py was changed while they ran",
    ),
}


@pytest.mark.parametrize("how", series(ENDED, "the tests are rewritten"))
async def test_incomplete_baseline_tests_are_refused_where_proof_is_required(suite: Suite, how: str) -> None:
    body, words = ENDED[how]
    source = SOURCE.replace(b"price", b"cost") + b"\n\ndef price(number):\n    " + body
    report = await suite.tested({"pricing.py": source, "tests/test_a.py": TESTS.replace(b"price", b"cost")})
    assert report.status == "PASS"
    found = proof_of(report).baseline_tests
    assert found is not None
    assert baseline_tests_in_words(found) == f"the baseline's tests on this change: {words}"
    (broken,) = suite.judged(report, "proved")
    assert broken.code == "tests_unproven"
    assert broken.detail.endswith("land the change of tests/test_a.py by itself")
    assert suite.judged(report, "recorded") == ()


@pytest.mark.long
async def test_a_file_replacing_the_test_folder_does_not_hide_baseline_tests(suite: Suite) -> None:
    suite.fixture.repository.git("checkout", "--quiet", "-B", "candidate", suite.fixture.baseline)
    suite.fixture.repository.git("rm", "--quiet", "-r", "tests")
    found = await on_candidate(suite, {"pricing.py": BROKEN, "tests": b"moved\n", "test_c.py": b"def test_c(): pass\n"})
    assert found.paths == ("test_c.py", "tests/test_a.py", "tests/test_b.py")
    assert found.failed == ("tests/test_a.py::test_doubles",)


@pytest.mark.long
async def test_reports_without_baseline_tests_are_refused_where_proof_is_required(suite: Suite) -> None:
    report = await suite.tested({"tests/test_a.py": TESTS + b"# said\n"})

    def refused(changed: bytes, testing: Testing, **proof: object) -> list[str]:
        assert suite.contract is not None
        command = replace(report.commands[0], proof=replace(proof_of(report), **proof))
        ordered = match_commands(replace(report, commands=(command,)), suite.contract)[0]
        return [each.code for each in broken_by_left_out(ordered, (b"pricing.py", changed), testing)]

    assert refused(b"tests/test_a.py", "proved") == []
    for changed in (b"tests/test_a.py", b"pytest.ini"):
        assert refused(changed, "proved", baseline_tests=None) == ["tests_unproven"]
    assert refused(b"README.md", "proved", baseline_tests=None) == []
    assert refused(b"tests/test_a.py", "recorded", baseline_tests=None) == []
    assert refused(b"tests/test_a.py", "proved", baseline_tests=None, collected_before=0) == []
