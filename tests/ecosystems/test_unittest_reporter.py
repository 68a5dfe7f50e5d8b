"""unittest, told by its own runner in a real sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ecosystems.suites import Suite, codes, proof_of

TESTS = b"""import unittest

from pricing import price


class Doubles(unittest.TestCase):
    def test_two(self):
        self.assertEqual(price(1), 2)

    def test_each(self):
        for number in range(3):
            with self.subTest(number):
                self.assertEqual(price(number), number * 2)


class Elsewhere(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest("not here")

    def test_other(self):
        pass


if __name__ == "__main__":
    unittest.main()
"""
FILES = {"pricing.py": b"def price(number):\n    return number * 2\n", "test_pricing.py": TESTS}
MORE = TESTS.replace(
    b"    def test_two", b"    def test_zero(self):\n        self.assertEqual(price(0), 0)\n\n    def test_two"
)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path, FILES)


@pytest.mark.parametrize(
    "command",
    ["python -m unittest", "python -m unittest test_pricing.Doubles test_pricing.Elsewhere", "python test_pricing.py"],
)
async def test_every_test_is_reported_and_proven_able_to_fail(suite: Suite, command: str) -> None:
    report = await suite.tested({"test_pricing.py": MORE}, command)
    proof = proof_of(report)
    assert report.status == "PASS", suite.printed(report)
    assert (proof.framework, proof.complete, proof.collected_before, proof.new_count) == ("unittest", True, 3, 1), proof
    assert suite.table(report) == [
        "test_pricing.py::Doubles.test_each\tpassed",
        "test_pricing.py::Doubles.test_two\tpassed",
        "test_pricing.py::Doubles.test_zero\tpassed",
        "test_pricing.py::Elsewhere.test_other\tskipped",
    ]
    assert suite.judged(report) == ()


async def test_a_part_of_a_test_that_fails_makes_it_fail(suite: Suite) -> None:
    report = await suite.tested({"pricing.py": b"def price(number):\n    return 2\n"}, "python -m unittest")
    assert report.status == "FAIL"
    assert "test_pricing.py::Doubles.test_each\tfailed" in suite.table(report)


async def test_a_command_whose_method_of_running_is_replaced_is_refused(suite: Suite) -> None:
    # Since 3.12 a run in which no test began ends with 5.
    steps = b"(r.startTest(self), r.addSuccess(self), r.stopTest(self))"
    passes = b"import unittest\nunittest.TestCase.run = lambda self, r=None: " + steps + b"\n"
    report = await suite.tested({"pricing.py": passes + b"def price(number):\n    return 7\n"}, "python -m unittest")
    assert report.status == "PASS"
    assert codes(suite.judged(report, "recorded")) == ["runner_patched"]
