"""What the tests of a candidate come to beside those of its baseline, and how it is remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gatewright.contracts.reports import TestProof
from gatewright.ecosystems.port import Sentinel
from gatewright.ecosystems.python.pytest_settings import SETTING_FILES
from gatewright.ecosystems.records import Outcome, RunnerReport, read_records, read_table, write_table
from gatewright.rules.reports.proof import alive
from gatewright.sandbox import Completed
from gatewright.services.testrunner.comparison import lost_tests, with_baseline, with_control
from gatewright.services.testrunner.comparison import test_files as files_of
from gatewright.services.testrunner.tables import Tables, key_of


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [
        (["a.py::t"], ["a.py::t", "a.py::u"], []),
        (["a.py::t", "a.py::u"], ["a.py::u"], ["a.py::t"]),
        (["a.py::t[1]", "a.py::t[2]"], ["a.py::t[one]", "a.py::t[two]", "a.py::t[three]"], []),
        (["a.py::t[1]", "a.py::t[2]"], ["a.py::t[one]"], ["a.py::t[1]"]),
        (["a.py::t[1]"], ["a.py::t"], ["a.py::t[1]"]),
        (["a case [slow]"], ["another case [slow]"], ["a case [slow]"]),
    ],
)
def test_a_case_is_lost_when_its_test_has_fewer_cases(before: list[str], now: list[str], lost: list[str]) -> None:
    assert lost_tests(before, now) == lost


@pytest.mark.parametrize(
    ("failing", "passing", "is_alive"),
    [
        ({"[native]": "failed", "[compiled]": "skipped"}, {"[native]": "passed", "[compiled]": "skipped"}, True),
        ({"[native]": "failed", "[compiled]": "passed"}, {"[native]": "passed", "[compiled]": "passed"}, False),
        ({"[native]": "skipped", "[compiled]": "skipped"}, {"[native]": "passed", "[compiled]": "passed"}, False),
        ({"": "skipped"}, {"": "passed"}, False),
    ],
)
def test_skipped_cases_of_a_planted_test_do_not_matter(
    failing: dict[str, Outcome], passing: dict[str, Outcome], is_alive: bool
) -> None:
    cases = {"a.py::f": failing, "a.py::p": passing}
    told = RunnerReport(outcomes={name + case: outcome for name, its in cases.items() for case, outcome in its.items()})
    ended = Completed(1, b"", b"", 1.0, timed_out=False, truncated=False)
    proof = with_control(TestProof(framework="pytest"), Sentinel({}, "a.py::f", "a.py::p"), ended, told)
    assert alive(proof) is is_alive


def test_of_many_lost_tests_one_of_each_file_is_named_first() -> None:
    before = {f"{file}.py::test_{number:03}": "" for file in "abc" for number in range(99)}
    proof = with_baseline(TestProof(framework="pytest"), RunnerReport(), before, ())
    assert (proof.lost_count, len(proof.lost)) == (297, 100)
    assert proof.lost[:4] == ("a.py::test_000", "b.py::test_000", "c.py::test_000", "a.py::test_001")


async def test_a_table_is_remembered_for_its_tree_command_and_environment(tmp_path: Path) -> None:
    tables, key = Tables(tmp_path / "tables"), key_of("1" * 40, ("pytest",), "")
    assert await tables.find(key) is None
    await tables.keep(key, {"a.py::t[\u00e9]": "passed", "a.py::u": ""})
    assert await Tables(tmp_path / "tables").find(key) == {"a.py::t[\u00e9]": "passed", "a.py::u": ""}
    others = (key_of("2" * 40, ("pytest",), ""), key_of("1" * 40, ("pytest", "-x"), ""), key_of("1" * 40, ("pytest",), "e"))
    assert [await tables.find(other) for other in others] == [None, None, None]


def test_a_table_has_one_line_a_test_whatever_its_name() -> None:
    assert write_table({"b\nc\tpassed": "failed", "a": ""}) == b"a\t\nb\\nc\\tpassed\tfailed\n"


def test_a_test_with_a_multiline_title_is_found_again() -> None:
    ids = ("a.js::one\nline", "a.js::one\u2028line", "a.js::one\x0b\ttab\r", "a.js::one \x85")
    records = ({"token": "t", "kind": "test", "id": each, "outcome": "passed"} for each in ids)
    told = read_records(map(str.encode, map(json.dumps, records)), "t")
    assert len(told.outcomes) == len(ids)
    assert lost_tests(read_table(write_table(told.outcomes)), told.outcomes) == []


@pytest.mark.parametrize("name", [*sorted(SETTING_FILES), "conftest.py"])
def test_a_setting_that_pytest_read_decides_how_tests_ran(name: str) -> None:
    told = RunnerReport(outcomes={"tests/test_a.py::test_a": "passed"}, loaded={name, "shop/cart.py"})
    assert files_of(told) == {name, "tests/test_a.py"}
