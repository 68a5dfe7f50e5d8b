"""Mutants of a change, tried in real sandboxes: noticed by good tests, shown where tests are weak, and left nowhere."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bounded.judge import BoundedJudge, ProcessBounds
from gatewright.contracts.reports import MutationSample
from gatewright.contracts.vocabulary import Budget, MutationBounds
from gatewright.errors import GitError
from gatewright.services.testrunner.mutation.drawing import FUNCTION
from tests.ecosystems.suites import CODE, Suite, proof_of

#: As much time as it takes.
BOUNDS = MutationBounds(time_share=1, least_seconds=600, most_mutants=8)
TESTS = "tests/test_pricing.py"
CHANGED = b"def price(number):\n    if number < 10:\n        return 7\n    return 8\n"
#: For all that does not depend on the framework: it starts in a third of pytest's time.
UNITTEST = "python -m unittest discover -s tests -t ."
CASES = (
    b"import unittest\n\nfrom pricing import price\n\n\nclass Prices(unittest.TestCase):\n"
    b"    def test_few(self):\n        self.assertEqual(price(9), 7)\n\n"
    b"    def test_many(self):\n        self.assertEqual(price(11), 8)\n"
)
CASES_OF_CODE = CASES.replace(b"9), 7", b"1), 2").replace(b"11), 8", b"2), 4")
STRONG = (
    b"from pricing import price\n\n\n"
    b"def test_few():\n    assert price(9) == 7\n\n\ndef test_many():\n    assert price(10) == 8\n"
)
WEAK = b"from pricing import price\n\n\ndef test_few():\n    assert price(1)\n\n\ndef test_many():\n    assert price(20)\n"
#: The same tests of a program that they start.
OUTSIDE = (
    b"import subprocess, sys\n\n\n"
    b"def test_program():\n    words = 'from pricing import price; raise SystemExit(price(9))'\n"
    b"    assert subprocess.run([sys.executable, '-c', words]).returncode == 7\n"
)


async def sampled(
    suite: Suite, changes: Mapping[str, bytes | None], *commands: str, bounds: MutationBounds = BOUNDS
) -> MutationSample:
    report = await suite.tested(changes, *commands, mutation=bounds)
    assert report.status == "PASS", suite.printed(report)
    found = proof_of(report).mutation
    assert found is not None
    return found


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path, CODE)


@pytest.fixture
def cases(tmp_path: Path) -> Suite:
    """The same source, with tests of unittest."""
    return Suite(tmp_path, {"pricing.py": CODE["pricing.py"], "tests/__init__.py": b"", TESTS: CASES_OF_CODE})


def shown(sample: MutationSample, outcome: str) -> list[str]:
    found = (f"{each.path}:{each.line} {each.before} -> {each.after}" for each in sample.mutants if each.outcome == outcome)
    return sorted(found)


def object_id(content: bytes) -> str:
    """Of a blob."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@pytest.mark.long
async def test_good_tests_notice_each_mutant_by_the_tests_that_run_its_line(suite: Suite) -> None:
    sample = await sampled(suite, {"pricing.py": CHANGED, TESTS: STRONG})
    assert (sample.possible, sample.tried, sample.unproven, sample.out_of_time) == (6, 6, "", False)
    assert {each.outcome for each in sample.mutants} == {"killed"}
    assert {(each.line, each.tests) for each in sample.mutants} == {(2, 2), (3, 1), (4, 1)}


@pytest.mark.long
async def test_survivors_are_shown_with_their_line_and_left_nowhere(suite: Suite) -> None:
    changes = {"pricing.py": CHANGED, TESTS: WEAK}
    tree, _ = await suite.fixture.changed(changes)
    report = await suite.tested(changes, mutation=replace(BOUNDS, most_mutants=3))
    sample = proof_of(report).mutation
    assert sample is not None
    # One of each line is drawn before the second of any.
    assert sorted(each.line for each in sample.mutants) == [2, 3, 4]
    assert [each for each in shown(sample, "survived") if each.startswith("pricing.py:2 ")]
    assert (report.tree, report.artifacts) == (tree, ())
    assert list((suite.fixture.state / "workspaces").glob("*/tasks/*")) == []
    assert len(list((suite.fixture.state / "testrunner" / "tables").iterdir())) == 2
    mirror = await suite.fixture.mirror()
    assert await mirror.sizes([object_id(CHANGED)])
    with pytest.raises(GitError):
        await mirror.sizes([object_id(CHANGED.replace(b"<", b"<="))])


@pytest.mark.long
async def test_the_same_change_has_the_same_mutants(cases: Suite) -> None:
    bounds = replace(BOUNDS, most_mutants=1)
    first, second = [await sampled(cases, {"pricing.py": CHANGED, TESTS: CASES}, UNITTEST, bounds=bounds) for _ in range(2)]
    assert (first.seed, first.mutants) == (second.seed, second.mutants)


async def test_nothing_is_tried_where_the_contract_does_not_ask(cases: Suite) -> None:
    assert proof_of(await cases.tested({"pricing.py": CHANGED, TESTS: CASES}, UNITTEST)).mutation is None


@pytest.mark.long
async def test_tests_of_a_program_that_they_start_notice_mutants_too(suite: Suite) -> None:
    sample = await sampled(suite, {"pricing.py": CHANGED[: CHANGED.index(b"    return 8")], TESTS: OUTSIDE})
    assert shown(sample, "killed") == ["pricing.py:3 7 -> 8", "pricing.py:3 7 -> None"]
    assert {each.tests for each in sample.mutants} == {None}


@pytest.mark.long
async def test_a_mutant_that_hangs_is_noticed(cases: Suite) -> None:
    endless = b"def price(number):\n    while number:\n        number -= 1\n    return number\n"
    tests = CASES[: CASES.index(b"    def test_many")].replace(b"9), 7", b"2), 0")
    sample = await sampled(cases, {"pricing.py": endless, TESTS: tests}, UNITTEST)
    assert "pricing.py:3 -= -> +=" in shown(sample, "timed_out")


@pytest.mark.long
async def test_a_mutant_that_cannot_be_imported_does_not_count(suite: Suite) -> None:
    picky = b"LIMIT = 3\nif LIMIT == 4:\n    raise ImportError\n\n\ndef price(number):\n    return number\n"
    tests = b"from pricing import price\n\n\ndef test_one():\n    assert price(1) == 1\n"
    sample = await sampled(suite, {"pricing.py": picky, TESTS: tests})
    assert {"pricing.py:1 3 -> 4", "pricing.py:2 == -> !="} <= set(shown(sample, "invalid"))


@pytest.mark.long
async def test_tests_that_need_an_earlier_command_notice_no_mutant(tmp_path: Path) -> None:
    made = b"import pathlib\n\npathlib.Path('made').write_text('7')\n"
    tests = CASES[: CASES.index(b"    def test_many")].replace(b"9), 7", b"1), int(open('made').read())")
    suite = Suite(tmp_path, {"pricing.py": CODE["pricing.py"], "tests/__init__.py": b"", TESTS: CASES_OF_CODE, "make.py": made})
    sample = await sampled(suite, {"pricing.py": CHANGED, TESTS: tests}, "python make.py", UNITTEST)
    assert (sample.tried, sample.unproven) == (0, "the tests do not pass in a workspace of their own")


async def test_no_mutant_is_tried_when_the_time_is_over(cases: Suite) -> None:
    bounds = MutationBounds(time_share=0, least_seconds=0, most_mutants=8)
    sample = await sampled(cases, {"pricing.py": CHANGED, TESTS: CASES}, UNITTEST, bounds=bounds)
    assert sample.mutants == ()
    assert sample.out_of_time or sample.unproven == "they were not drawn within the time"


@pytest.mark.long
async def test_mutants_do_not_use_up_the_time_that_the_run_has(cases: Suite) -> None:
    report = await cases.tested({"pricing.py": CHANGED, TESTS: CASES}, UNITTEST, mutation=BOUNDS, budget=Budget(wall_sec=0.001))
    sample = proof_of(report).mutation
    assert sample is not None
    assert (report.status, sample.mutants) == ("PASS", ())


async def test_undrawable_mutants_are_reported_and_the_tests_still_count(cases: Suite) -> None:
    cases.runner._prover._sampler._judge = BoundedJudge(FUNCTION, ProcessBounds(0.0))
    sample = await sampled(cases, {"pricing.py": CHANGED, TESTS: CASES}, UNITTEST)
    assert (sample.mutants, sample.unproven) == ((), "the mutants could not be drawn: not judged within 0 s")


@pytest.mark.long
async def test_unittest_reports_which_tests_run_a_line(cases: Suite) -> None:
    changes = {"pricing.py": CHANGED, TESTS: CASES}
    sample = await sampled(cases, changes, UNITTEST, bounds=replace(BOUNDS, most_mutants=3))
    assert {(each.line, each.tests) for each in sample.mutants} == {(2, 2), (3, 1), (4, 1)}


@pytest.mark.long
async def test_scripts_of_node_are_mutated_and_python_beside_them_is_not(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"package.json": b'{"name": "shop", "scripts": {"test": "node --test"}}\n'})
    changes = {
        "price.js": b"exports.price = (number) => number * 2 + 1;\n",
        "tool.py": b"x = 1 + 2\n",
        "test/price.test.js": (
            b"const { test } = require('node:test');\nconst assert = require('node:assert');\n"
            b"const { price } = require('../price.js');\n"
            b"test('doubles', () => { assert.equal(price(1) > 0, true); });\n"
        ),
    }
    sample = await sampled(suite, changes, "npm test", bounds=replace(BOUNDS, most_mutants=2))
    assert (sample.possible, sample.tried) == (4, 2)
    assert {each.path for each in sample.mutants} == {"price.js"}
    assert {each.outcome for each in sample.mutants} <= {"killed", "survived"}
