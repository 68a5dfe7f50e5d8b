"""A command that fails without the change, too, is told so: which of its tests failed before, or how it ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.rules.reports.proof import in_words
from tests.ecosystems.suites import PYTEST, Suite, proof_of

FILES = {
    "pricing.py": b"def price(number):\n    return number * 2\n",
    "tests/test_old.py": b"def test_broken_already():\n    assert False\n",
    "tests/test_new.py": b"from pricing import price\n\n\ndef test_doubles():\n    assert price(2) == 4\n",
    "check.py": b"raise SystemExit(3)\n",
}
BROKEN = {"pricing.py": b"def price(number):\n    return number\n"}


@pytest.mark.long
async def test_only_tests_that_failed_before_the_change_are_reported(tmp_path: Path) -> None:
    report = await Suite(tmp_path, FILES).tested(BROKEN)
    proof = proof_of(report)
    assert (report.status, proof.failed_before) == ("FAIL", ("tests/test_old.py::test_broken_already",))
    assert in_words(proof).endswith("failed before the change too: tests/test_old.py::test_broken_already")


@pytest.mark.long
async def test_a_change_that_breaks_passing_tests_reports_no_earlier_failure(tmp_path: Path) -> None:
    files = {**FILES, "tests/test_old.py": b"def test_whole():\n    assert True\n"}
    proof = proof_of(await Suite(tmp_path, files).tested(BROKEN))
    assert (proof.exit_before, proof.failed_before) == (0, ())
    assert "before the change" not in in_words(proof)


async def test_a_command_without_a_framework_runs_on_the_baseline(tmp_path: Path) -> None:
    report = await Suite(tmp_path, FILES).tested(BROKEN, "python check.py")
    assert proof_of(report).exit_before == 3
    assert in_words(proof_of(report)).endswith("it failed before the change too (it ended with 3)")


@pytest.mark.long
async def test_uncollectable_tests_are_reported_by_the_exit_code(tmp_path: Path) -> None:
    report = await Suite(tmp_path, {**FILES, "tests/test_old.py": b"import missing_module\n"}).tested(
        BROKEN, f"{PYTEST} tests/test_old.py"
    )
    assert proof_of(report).exit_before == 2
