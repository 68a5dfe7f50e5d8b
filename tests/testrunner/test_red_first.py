"""New and changed tests run on the baseline's sources, where they must fail."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gatewright.contracts.reports import RedFirst
from gatewright.rules.reports.proof import in_words, red_first_in_words
from tests.ecosystems.suites import PYTEST, Suite, proof_of
from tests.ecosystems.test_node import needs_node
from tests.ecosystems.test_rust import MANIFEST, TOOLCHAIN, needs_cargo

pytestmark = pytest.mark.asyncio(loop_scope="module")

SOURCE = b"def price(number):\n    return number * 2\n"
#: A change with a new function, and another result for nothing.
CHANGED = b"def price(number):\n    return number * 2 or 1\n\n\ndef cost(number):\n    return number + 1\n"
TESTS = (
    b"import pricing\n\n\ndef test_doubles():\n    assert pricing.price(2) == 4\n"
    b"\n\ndef test_none():\n    assert pricing.price(0) is not None\n"
)
FILES = {"pricing.py": SOURCE, "tests/test_a.py": TESTS, "tests/test_b.py": b"def test_other():\n    assert True\n"}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return Suite(tmp_path_factory.mktemp("suite"), FILES)


async def red_first(suite: Suite, changes: Mapping[str, bytes | None], *commands: str) -> RedFirst:
    """The result for a change whose own tests pass."""
    report = await suite.tested(changes, *commands)
    assert report.status == "PASS", suite.printed(report)
    found = proof_of(report).red_first
    assert found is not None
    return found


async def test_vacuous_tests_among_real_ones_are_named(suite: Suite) -> None:
    tests = TESTS + (
        b"\n\ndef test_least():\n    assert pricing.price(0) == 1\n"
        b"\n\ndef test_vacuous():\n    assert True\n"
        b"\n\ndef test_costs():\n    assert pricing.cost(2) == 3\n"
        b"\n\ndef test_unrelated():\n    assert pricing.price(3) == 6\n"
    )
    report = await suite.tested({"pricing.py": CHANGED, "tests/test_a.py": tests})
    found = proof_of(report).red_first
    assert found == RedFirst(
        tests=4, failed_count=2, passed_count=2, passed=("tests/test_a.py::test_unrelated", "tests/test_a.py::test_vacuous")
    )
    words = (
        "red first: 2 of 4 new or changed tests fail without the change; "
        "pass without it: tests/test_a.py::test_unrelated, tests/test_a.py::test_vacuous"
    )
    assert red_first_in_words(found) == words
    assert words in in_words(proof_of(report))


async def test_a_test_of_a_new_module_fails_by_its_import(suite: Suite) -> None:
    changes = {
        "taxes.py": b"def tax():\n    return 1\n",
        "tests/test_c.py": b"from taxes import tax\n\n\ndef test_tax():\n    assert tax()\n",
    }
    assert await red_first(suite, changes) == RedFirst(tests=1, failed_count=1)


async def test_a_conftest_that_needs_the_change_fails_all_tests(suite: Suite) -> None:
    changes = {
        "pricing.py": CHANGED,
        "tests/conftest.py": b"from pricing import cost\n",
        "tests/test_c.py": b"def test_c():\n    assert 1\n",
    }
    assert await red_first(suite, changes) == RedFirst(tests=1, failed_count=1)


async def test_only_a_changed_text_makes_an_old_test_count(suite: Suite) -> None:
    changed = TESTS.replace(b"is not None", b"== 1") + b"\n\ndef test_new():\n    assert pricing.cost(1) == 2\n"
    assert await red_first(suite, {"pricing.py": CHANGED, "tests/test_a.py": changed}) == RedFirst(tests=2, failed_count=2)


async def test_cases_of_a_parametrised_test_are_one_test(suite: Suite) -> None:
    tests = (
        b"import pytest\n\nimport pricing\n\n\n@pytest.mark.parametrize(('number', 'least'), [(2, 4), (0, 1)])\n"
        b"def test_least(number, least):\n    assert pricing.price(number) == least\n\n\n"
        b"@pytest.mark.parametrize('number', [1, 2])\ndef test_vacuous(number):\n    assert number\n"
    )
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": tests})
    assert found == RedFirst(tests=2, failed_count=1, passed_count=1, passed=("tests/test_c.py::test_vacuous",))


async def test_a_new_case_of_an_old_test_is_new(tmp_path: Path) -> None:
    old = b"import pytest\n\nimport pricing\n\n\n@pytest.mark.parametrize('number', [2])\n"
    old += b"def test_c(number):\n    assert pricing.price(number)\n"
    suite = Suite(tmp_path, {**FILES, "tests/test_c.py": old})
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": old.replace(b"[2]", b"[2, 3]")})
    assert found == RedFirst(tests=1, passed_count=1, passed=("tests/test_c.py::test_c[3]",))


async def test_a_renamed_test_file_brings_no_new_test(suite: Suite) -> None:
    new = TESTS + b"\n\ndef test_costs():\n    assert pricing.cost(1) == 2\n"
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_a.py": None, "tests/test_prices.py": new})
    assert found == RedFirst(tests=1, failed_count=1)


async def test_test_data_of_the_change_is_there(suite: Suite) -> None:
    tests = b"import pathlib\n\n\ndef test_data():\n    assert [*pathlib.Path('testdata').iterdir()]\n"
    changes = {"pricing.py": CHANGED, "testdata/one": b"x", "tests/test_c.py": tests}
    assert (await red_first(suite, changes)).passed == ("tests/test_c.py::test_data",)


async def test_a_test_that_only_lacks_its_data_seems_to_need_the_change(suite: Suite) -> None:
    """A limit: data outside the folders of test data is a source."""
    tests = b"import pathlib\n\n\ndef test_data():\n    assert pathlib.Path('inputs/one').read_bytes()\n"
    changes = {"pricing.py": CHANGED, "inputs/one": b"x", "tests/test_c.py": tests}
    assert await red_first(suite, changes) == RedFirst(tests=1, failed_count=1)


async def test_a_test_that_recognises_the_baseline_is_not_found(suite: Suite) -> None:
    """A limit, as a test of such a kind does depend on the change."""
    tests = b"import pricing\n\n\ndef test_vacuous():\n    assert hasattr(pricing, 'cost')\n"
    assert await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": tests}) == RedFirst(tests=1, failed_count=1)


async def test_a_change_of_tests_alone_has_nothing_to_try(suite: Suite) -> None:
    changes = {"tests/test_b.py": b"def test_other():\n    assert 1\n", "CHANGELOG.md": b"# more tests\n"}
    assert await red_first(suite, changes) == RedFirst(not_applicable="the change has tests alone")


async def test_a_change_without_tests_is_not_tried(suite: Suite) -> None:
    assert proof_of(await suite.tested({"pricing.py": CHANGED})).red_first is None


async def test_a_changed_test_without_grammar_is_unknown(suite: Suite) -> None:
    changes = {"pricing.py": CHANGED, "tests/test_b.py": b"def test_other():\n    assert True\n" + b"#" * (17 << 20)}
    found = await red_first(suite, changes)
    assert found == RedFirst(not_applicable="the change has no new or changed test", unknown_count=1)


async def test_a_skipped_test_has_no_result(suite: Suite) -> None:
    tests = b"import pytest\n\npytest.importorskip('taxes')\n\n\ndef test_tax():\n    assert True\n"
    found = await red_first(suite, {"taxes.py": b"", "tests/test_c.py": tests})
    assert found == RedFirst(tests=1, unrun_count=1)
    assert red_first_in_words(found).endswith("fail without the change; 1 without a result")


async def test_a_test_that_waits_for_the_change_is_stopped(suite: Suite) -> None:
    tests = b"import pricing\n\n\ndef test_waits():\n    while not hasattr(pricing, 'cost'):\n        pass\n"
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": tests})
    assert (found.tests, found.unrun_count, found.stopped) == (1, 1, "time")


async def test_a_test_that_rewrites_tests_proves_nothing(suite: Suite) -> None:
    tests = b"import pricing\n\n\ndef test_c():\n    if not hasattr(pricing, 'cost'):\n        open(__file__, 'a').write('#')\n"
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": tests})
    assert found == RedFirst(unproven="tests/test_c.py was changed while they ran")


UNITTEST = (
    b"import unittest\n\nimport pricing\n\n\nclass PriceTest(unittest.TestCase):\n"
    b"    def test_doubles(self):\n        self.assertEqual(pricing.price(2), 4)\n"
)


async def test_unittest_is_tried_by_class_and_method(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"pricing.py": SOURCE, "test_a.py": UNITTEST})
    tests = UNITTEST.replace(b"(2), 4", b"(0), 1") + (
        b"\n    def test_vacuous(self):\n        self.assertTrue(1)\n"
        b"\n    def test_costs(self):\n        self.assertEqual(pricing.cost(2), 3)\n"
    )
    found = await red_first(suite, {"pricing.py": CHANGED, "test_a.py": tests}, "python -m unittest")
    assert found == RedFirst(tests=3, failed_count=2, passed_count=1, passed=("test_a.py::PriceTest.test_vacuous",))


NODE = (
    b"const { test, describe } = require('node:test');\nconst assert = require('node:assert');\n"
    b"const { price } = require('../price.js');\ndescribe('price', () => {\n"
    b"  test('doubles', () => assert.equal(price(2), 4));\n//more\n});\n"
)


@needs_node
async def test_node_is_tried_by_suite_and_title(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"price.js": b"exports.price = (n) => n * 2;\n", "test/a.test.js": NODE})
    more = b"  test('is vacuous', () => assert.ok(1));\n  test('is one for none', () => assert.equal(price(0), 1));\n"
    changes = {"price.js": b"exports.price = (n) => n * 2 || 1;\n", "test/a.test.js": NODE.replace(b"//more\n", more)}
    found = await red_first(suite, changes, "node --test")
    assert found == RedFirst(tests=2, failed_count=1, passed_count=1, passed=("test/a.test.js::price > is vacuous",))


RUST = "use demo::add;\n\n#[test]\nfn adds() {\n    assert_eq!(add(1, 2), 3);\n}\n"


@needs_cargo
@pytest.mark.long
async def test_cargo_is_tried_by_function(tmp_path: Path) -> None:
    library = b"pub fn add(one: i32, other: i32) -> i32 {\n    one + other\n}\n"
    files = {"Cargo.toml": MANIFEST.encode(), "src/lib.rs": library, "tests/outside.rs": RUST.encode()}
    suite = Suite(tmp_path, files, TOOLCHAIN)
    tests = f"{RUST}\n#[test]\nfn is_vacuous() {{\n    assert!(1 < 2);\n}}\n"
    tests += "\n#[test]\nfn stops() {\n    assert_eq!(add(9, 9), 10);\n}\n"
    changes = {"src/lib.rs": library.replace(b"one + other", b"(one + other).min(10)"), "tests/outside.rs": tests.encode()}
    found = await red_first(suite, changes, "cargo test")
    assert found == RedFirst(tests=2, failed_count=1, passed_count=1, passed=("tests/outside.rs::is_vacuous",))


async def test_an_import_that_fails_hides_no_vacuous_test_of_another_file(suite: Suite) -> None:
    changes = {
        "taxes.py": b"def tax():\n    return 1\n",
        "tests/test_c.py": b"from taxes import tax\n\n\ndef test_tax():\n    assert tax()\n",
        "tests/test_d.py": b"def test_vacuous():\n    assert True\n",
    }
    expected = RedFirst(tests=2, failed_count=1, passed_count=1, passed=("tests/test_d.py::test_vacuous",))
    assert await red_first(suite, changes) == expected


async def test_a_command_that_stops_at_the_first_failure_hides_no_vacuous_test(suite: Suite) -> None:
    tests = (
        b"import pricing\n\n\ndef test_costs():\n    assert pricing.cost(1) == 2\n\n\ndef test_vacuous():\n    assert True\n"
    )
    found = await red_first(suite, {"pricing.py": CHANGED, "tests/test_c.py": tests}, f"{PYTEST} -x")
    assert found == RedFirst(tests=2, failed_count=1, passed_count=1, passed=("tests/test_c.py::test_vacuous",))


@needs_cargo
@pytest.mark.long
async def test_a_file_that_does_not_compile_hides_no_vacuous_test_of_another(tmp_path: Path) -> None:
    library = b"pub fn add(one: i32, other: i32) -> i32 {\n    one + other\n}\n"
    suite = Suite(
        tmp_path, {"Cargo.toml": MANIFEST.encode(), "src/lib.rs": library, "tests/outside.rs": RUST.encode()}, TOOLCHAIN
    )
    changes = {
        "src/lib.rs": library + b"pub fn less(one: i32, other: i32) -> i32 {\n    one - other\n}\n",
        "tests/less.rs": b"#[test]\nfn subtracts() {\n    assert_eq!(demo::less(2, 1), 1);\n}\n",
        "tests/vacuous.rs": b"#[test]\nfn is_vacuous() {\n    assert!(1 < 2);\n}\n",
    }
    found = await red_first(suite, changes, "cargo test")
    assert found == RedFirst(tests=2, failed_count=1, passed_count=1, passed=("tests/vacuous.rs::is_vacuous",))
