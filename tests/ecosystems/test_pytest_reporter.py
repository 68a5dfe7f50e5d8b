"""pytest, told by our plugin in a real sandbox: each test with its outcome, a control that must fail, the baseline's tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gatewright.rules.reports.proof import alive
from tests.ecosystems.environments import make_environment
from tests.ecosystems.suites import CODE, PYTEST, Suite, codes, proof_of
from tests.series import series

pytestmark = pytest.mark.asyncio(loop_scope="module")

MORE = b"\n\ndef test_one_more():\n    assert price(3) == 6\n"
SKIPPED = (
    b"\n\n@pytest.mark.skip\ndef test_later():\n    pass\n"
    b"\n\n@pytest.mark.xfail\ndef test_wanted():\n    assert price(1) == 1\n"
)


#: Each test runs with the one, and is skipped with the other: an extension that is not built, say.
OF_EVERY_TEST = (
    b"import pytest\n\n\n@pytest.fixture(scope='session', autouse=True, "
    b"params=['native', pytest.param('compiled', marks=pytest.mark.skip)])\ndef kind(request):\n    return request.param\n"
)


#: Where a file is collected twice, it calls itself for ever.
AS_PYTEST_ASYNCIO_0_23 = b"""
import pytest


@pytest.hookimpl
def pytest_collectstart(collector):
    def collect():
        return collector.__original_collect()

    if isinstance(collector, pytest.Module):
        collector.__original_collect = collector.collect
        collector.collect = collect
"""


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    """One for all: what it found out about the baseline it remembers."""
    return Suite(tmp_path_factory.mktemp("suite"))


async def test_every_test_is_reported_and_proven_able_to_fail(suite: Suite) -> None:
    report = await suite.tested({"tests/test_pricing.py": CODE["tests/test_pricing.py"] + MORE + SKIPPED})
    proof = proof_of(report)
    assert report.status == "PASS", suite.printed(report)
    assert (proof.framework, proof.unproven, proof.complete) == ("pytest", "", True)
    assert proof.counts is not None
    assert (proof.counts.passed, proof.counts.failed, proof.counts.skipped) == (4, 0, 2)
    assert (proof.collected_before, proof.lost_count, proof.new_count, proof.newly_skipped) == (3, 0, 3, ())
    assert proof.control is not None
    assert (proof.control.failing_outcome, proof.control.passing_outcome, proof.control.exit_code) == ("failed", "passed", 1)
    assert suite.table(report) == [
        "tests/test_pricing.py::test_doubles[1]\tpassed",
        "tests/test_pricing.py::test_doubles[2]\tpassed",
        "tests/test_pricing.py::test_later\tskipped",
        "tests/test_pricing.py::test_nothing\tpassed",
        "tests/test_pricing.py::test_one_more\tpassed",
        "tests/test_pricing.py::test_wanted\tskipped",
    ]
    assert suite.judged(report) == ()


async def test_what_older_versions_of_the_runner_call_otherwise_is_still_its_own(tmp_path: Path) -> None:
    """``Session.startdir`` comes from a function whose name pytest 7 and 8 have misspelt."""
    site = make_environment(tmp_path / "environment")
    added = site / "_pytest" / "legacypath.py"
    misspelt = added.read_text().replace("Session_startdir", "Session_stardir")
    assert misspelt != added.read_text()
    added.write_text(misspelt)
    suite = Suite(tmp_path, prefix=tmp_path / "environment")
    report = await suite.tested({"pricing.py": CODE["pricing.py"] + b"# cheaper soon\n"})
    assert proof_of(report).counts is not None, suite.printed(report)
    assert suite.judged(report) == ()


async def test_a_plugin_that_wraps_twice_does_not_stop_a_control(suite: Suite) -> None:
    report = await suite.tested({"tests/conftest.py": AS_PYTEST_ASYNCIO_0_23})
    assert report.status == "PASS", suite.printed(report)
    assert alive(proof_of(report)), proof_of(report).control


async def test_a_suite_with_cases_from_a_fixture_can_fail(suite: Suite) -> None:
    report = await suite.tested({"tests/conftest.py": OF_EVERY_TEST})
    assert report.status == "PASS", suite.printed(report)
    assert alive(proof_of(report)), proof_of(report).control


async def test_a_failing_suite_is_reported_and_gets_no_control(suite: Suite) -> None:
    report = await suite.tested({"pricing.py": b"def price(number):\n    return number * 3\n"})
    proof = proof_of(report)
    assert report.status == "FAIL"
    assert proof.counts is not None
    assert (proof.counts.passed, proof.counts.failed) == (1, 2)
    assert (proof.control, proof.collected_before) == (None, None)
    assert codes(suite.judged(report)) == ["tests_failed"]


@pytest.mark.parametrize(
    "command",
    series(
        [
            f"{PYTEST} -x -k doubles",
            f"{PYTEST} tests/test_pricing.py",
            f"{PYTEST} tests/test_pricing.py::test_nothing",
            f"{PYTEST} --import-mode=importlib -p no:cacheprovider",
        ],
        f"{PYTEST} tests/test_pricing.py::test_nothing",
    ),
)
async def test_the_command_is_proved_however_it_is_given(suite: Suite, command: str) -> None:
    await assert_proved(suite, command)


@pytest.mark.long
@pytest.mark.parametrize("distribution", series(["", "--dist loadgroup"], "--dist loadgroup"))
async def test_the_command_is_proved_when_several_processes_share_its_tests(tmp_path: Path, distribution: str) -> None:
    # In the environment of these tests, which has xdist; without the other plugins, which take long to load.
    suite = Suite(tmp_path, prefix=Path(sys.prefix))
    await assert_proved(suite, f"{PYTEST} -p no:asyncio -p no:hypothesispytest -p no:timeout -n 2 {distribution}".rstrip())


async def assert_proved(suite: Suite, command: str) -> None:
    report = await suite.tested({"README.md": b"more\n"}, command)
    assert report.status == "PASS", suite.printed(report)
    proof = proof_of(report)
    assert proof.counts is not None
    assert proof.collected_before == proof.counts.passed > 0
    assert suite.judged(report) == (), proof


async def test_an_unknown_test_command_runs_once_and_is_unproven(suite: Suite) -> None:
    report = await suite.tested({"README.md": b"more\n"}, "test -s README.md")
    assert proof_of(report).unproven == "test starts no test framework that is known"
    assert suite.judged(report, "recorded") == ()
    assert codes(suite.judged(report, "proved")) == ["tests_unproven"]
