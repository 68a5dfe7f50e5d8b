"""Tests that are made to prove less, one trick each; and what people do to tests that keeps what they prove."""

from __future__ import annotations

import pytest

from gatewright.contracts.reports import Finding
from gatewright.services.reviewer.checks.weakened_tests import weakened_tests
from tests.reviewer.test_checks import changed, found

PYTHON = b"""import pytest
from shop import price


def total(items):
    return sum(price(item) for item in items)


def test_price():
    assert price("a") == 1
    assert price("b") == 2


def test_total():
    assert total(["a", "b"]) == 3


class TestErrors:
    def test_unknown(self):
        with pytest.raises(KeyError):
            price("z")
"""
CASE = b'    assert price("a") == 1\n    assert price("b") == 2\n'


def py(old: bytes, new: bytes) -> bytes:
    assert old in PYTHON
    return PYTHON.replace(old, new)


TRICKS: dict[str, bytes] = {
    "renamed": py(b"def test_price", b"def _test_price"),
    "renamed-class": py(b"class TestErrors", b"class Errors"),
    "class-not-collected": py(b"class TestErrors:\n", b"class TestErrors:\n    __test__ = False\n"),
    "class-with-a-constructor": py(b"class TestErrors:\n", b"class TestErrors:\n    def __init__(self): ...\n"),
    "commented-out": py(b"def test_price():\n" + CASE, b"# def test_price():\n#     assert price(1)\n"),
    "moved-into-a-string": py(b"def test_price():\n" + CASE, b"'''\ndef test_price():\n" + CASE + b"'''\n"),
    "or-true": py(b'price("a") == 1', b'price("a") == 1 or True'),
    "assert-true": py(b'assert price("a") == 1', b"assert True"),
    "assert-a-pair": py(b'assert price("a") == 1', b'assert (price("a") == 1, "the price")'),
    "compared-with-itself": py(b'price("a") == 1', b"price == price"),
    "pass": py(CASE, b"    pass\n"),
    "dots": py(CASE, b"    ...\n"),
    "docstring-only": py(CASE, b'    """checked elsewhere"""\n'),
    "return-first": py(CASE, b"    return\n" + CASE),
    "if-false": py(CASE, b"    if False:\n" + CASE.replace(b"    ", b"        ")),
    "while-zero": py(CASE, b"    while 0:\n" + CASE.replace(b"    ", b"        ")),
    "for-nothing": py(CASE, b"    for _ in []:\n" + CASE.replace(b"    ", b"        ")),
    "an-assertion-removed": py(b'    assert price("b") == 2\n', b""),
    "assertion-made-a-statement": py(b'assert price("b") == 2', b'price("b") == 2'),
    "caught": py(CASE, b"    try:\n" + CASE.replace(b"    ", b"        ") + b"    except AssertionError:\n        pass\n"),
    "caught-bare": py(CASE, b"    try:\n" + CASE.replace(b"    ", b"        ") + b"    except:\n        print('x')\n"),
    "suppressed": py(CASE, b"    with contextlib.suppress(Exception):\n" + CASE.replace(b"    ", b"        ")),
    "skipped": py(b"def test_price", b"@pytest.mark.skip\ndef test_price"),
    "skipif": py(b"def test_price", b"@pytest.mark.skipif(True, reason='slow')\ndef test_price"),
    "xfail": py(b"def test_price", b"@pytest.mark.xfail\ndef test_price"),
    "skipped-class": py(b"class TestErrors", b"@unittest.skip('x')\nclass TestErrors"),
    "pytestmark": py(b"import pytest\n", b"import pytest\npytestmark = pytest.mark.skip\n"),
    "pytestmark-in-the-class": py(b"class TestErrors:\n", b"class TestErrors:\n    pytestmark = [pytest.mark.xfail]\n"),
    "skip-at-module-level": py(b"import pytest\n", b"import pytest\npytest.skip('x', allow_module_level=True)\n"),
    "skip-in-the-body": py(CASE, b"    pytest.skip('later')\n" + CASE),
    "raise-skip": py(CASE, b"    raise unittest.SkipTest('x')\n" + CASE),
    "defined-twice": py(b"def test_total", b"def test_price"),
    "deleted-by-name": PYTHON + b"\ndel test_price\n",
    "overwritten": PYTHON + b"\ntest_price = None\n",
    "under-if-false": py(
        b"def test_price():\n" + CASE, b"if False:\n    def test_price():\n" + CASE.replace(b"    ", b"        ")
    ),
    "inside-a-function": py(
        b"def test_price():\n" + CASE, b"def x():\n    def test_price():\n" + CASE.replace(b"    ", b"        ")
    ),
    "does-not-parse": PYTHON + b"\ndef (:\n",
    "collect-ignore-in-the-file": PYTHON + b"\ncollect_ignore = ['test_a.py']\n",
    "replaced-by-an-empty-one": py(b"def test_price():\n" + CASE, b"def test_it():\n    assert price\n"),
}


def words(*findings: Finding) -> list[str]:
    return [finding.message for finding in findings]


@pytest.mark.parametrize("path", ["tests/test_a.py", "shop/tests.py", "shop/price_test.py"])
@pytest.mark.parametrize("trick", TRICKS)
def test_a_python_test_that_proves_less_blocks(trick: str, path: str) -> None:
    findings = found(weakened_tests, changed(path, PYTHON, TRICKS[trick]))
    assert findings
    assert {(each.code, each.blocking, each.path) for each in findings} == {("tests_weakened", True, path)}


def test_a_finding_names_the_test_and_its_line() -> None:
    (finding,) = found(weakened_tests, changed("tests/test_a.py", PYTHON, TRICKS["or-true"]))
    assert (finding.line, finding.message) == (9, "test_price checks less: 1 of 2 checks are gone, or cannot fail any more")


CHECKED = b"def same(a, b):\n    assert a == b\n    assert type(a) is type(b)\n\n\ndef test_a():\n    same(f(), 1)\n"
ROWS = b"import pytest\n\n@pytest.mark.parametrize('n', [1, 2, 3])\ndef test_n(n):\n    assert f(n)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CHECKED, CHECKED.replace(b"    assert a == b\n    assert type(a) is type(b)\n", b"    print(a, b)\n")),
        (ROWS, ROWS.replace(b"[1, 2, 3]", b"[1]")),
        (b"class T(TestCase):\n    def test(self):\n        self.assertEqual(f(), 1)\n",) * 1
        + (b"class T(TestCase):\n    def test(self):\n        self.assertEqual(f(), f())\n",),
        (b"class T(TestCase):\n    def test(self):\n        self.assertTrue(f())\n",) * 1
        + (b"class T(TestCase):\n    def test(self):\n        self.assertTrue(f() or True)\n",),
        (b"def test_it_runs():\n    main()\n", b"def test_it_runs():\n    pass\n"),
    ],
)
def test_checks_in_helpers_rows_and_methods_count(old: bytes, new: bytes) -> None:
    assert found(weakened_tests, changed("tests/test_a.py", old, new))


@pytest.mark.parametrize(
    "hook",
    [
        b"collect_ignore = ['test_a.py']\n",
        b"collect_ignore_glob = ['*']\n",
        b"def pytest_ignore_collect(path):\n    return True\n",
        b"def pytest_collection_modifyitems(items):\n    items.clear()\n",
        b"def pytest_sessionfinish(session):\n    session.exitstatus = 0\n",
        b"@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item):\n    (yield).outcome = 'passed'\n",
        b"def pytest_pyfunc_call(pyfuncitem):\n    return True\n",
        b"def pytest_unconfigure(config):\n    os._exit(0)\n",
        b"@pytest.fixture\ndef x(request):\n    request.session.testsfailed = 0\n",
    ],
)
def test_a_hook_that_decides_what_is_run_or_how_it_ends_blocks(hook: bytes) -> None:
    before = b"import pytest\n"
    assert found(weakened_tests, changed("tests/conftest.py", before, before + hook))
    assert found(weakened_tests, changed("conftest.py", None, hook))
    assert not found(weakened_tests, changed("tests/conftest.py", hook, hook + b"\nX = 1\n"))


def test_renaming_a_test_file_out_of_discovery_blocks() -> None:
    for name in ("tests/_test_a.py", "tests/a_checks.py", "tests/test_a.py.txt"):
        files = changed("tests/test_a.py", PYTHON, None), changed(name, None, PYTHON)
        assert any("deleted" in each for each in words(*found(weakened_tests, *files))), name


JS = b"""describe('price', () => {
  it('adds', () => {
    expect(add(1, 2)).toBe(3)
    expect(add(0, 0)).toBe(0)
  })
  test('fails', async () => {
    await expect(load()).rejects.toThrow()
  })
})
"""
GO = b"""package shop

import "testing"

func TestPrice(t *testing.T) {
	if price("a") != 1 {
		t.Errorf("price")
	}
}

func TestTotal(t *testing.T) {
	require.Equal(t, 3, total())
}
"""
RUST = b"""pub fn price() -> u32 { 1 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices() {
        assert_eq!(price(), 1);
        assert!(price() > 0);
    }

    #[test]
    fn more() {
        assert_ne!(price(), 2);
    }
}
"""
JAVA = b"""class PriceTest {
    @Test
    void price() {
        assertEquals(1, shop.price("a"));
        assertThat(shop.total()).isEqualTo(3);
    }
}
"""
KOTLIN = b"""class PriceTest {
    @Test
    fun price() {
        assertEquals(1, shop.price("a"))
    }
}
"""
CSHARP = b"""public class PriceTests {
    [Fact]
    public void Price() {
        Assert.Equal(1, shop.Price("a"));
    }
}
"""
SWIFT = b"""import XCTest
final class PriceTests: XCTestCase {
    func testPrice() {
        XCTAssertEqual(price("a"), 1)
    }
}
"""
PHP = b"""<?php
final class PriceTest extends TestCase {
    public function testPrice(): void {
        $this->assertSame(1, price('a'));
    }

    /** @test */
    public function it_adds(): void {
        $this->assertSame(3, total());
    }
}
"""
RUBY = b"""describe 'price' do
  it 'adds' do
    expect(add(1, 2)).to eq(3)
  end
end
"""
MINITEST = b"""class PriceTest < Minitest::Test
  def test_price
    assert_equal 1, price('a')
  end
end
"""
OTHERS: list[tuple[str, bytes, bytes, bytes]] = [
    ("web/a.test.js", JS, b"it('adds'", b"it.skip('adds'"),
    ("web/a.test.js", JS, b"it('adds'", b"xit('adds'"),
    ("web/a.test.ts", JS, b"it('adds'", b"it.only('adds'"),
    ("web/a.spec.tsx", JS, b"describe('price'", b"describe.skip('price'"),
    ("web/a.test.js", JS, b"it('adds'", b"it.todo('adds'"),
    ("web/a.test.js", JS, b"    expect(add(0, 0)).toBe(0)\n", b""),
    ("web/a.test.js", JS, b"expect(add(0, 0)).toBe(0)", b"expect(true).toBe(true)"),
    ("web/a.test.js", JS, b"    expect(add(1, 2)).toBe(3)\n", b"    return\n    expect(add(1, 2)).toBe(3)\n"),
    ("web/a.test.js", JS, b"  it('adds'", b"  if (false) it('adds'"),
    ("web/a.test.js", JS, b"    await expect(load()).rejects.toThrow()\n", b""),
    ("web/a.test.js", JS, b"it('adds'", b"note('adds'"),
    ("web/a.test.js", JS, b"expect(add(1, 2)).toBe(3)", b"try { expect(add(1, 2)).toBe(3) } catch (e) {}"),
    ("shop_test.go", GO, b"func TestPrice", b"func testPrice"),
    ("shop_test.go", GO, b'\tif price("a") != 1', b'\tt.Skip()\n\tif price("a") != 1'),
    ("shop_test.go", GO, b'if price("a") != 1', b"if false"),
    ("shop_test.go", GO, b'\tif price("a") != 1', b'\treturn\n\tif price("a") != 1'),
    ("shop_test.go", GO, b"\trequire.Equal(t, 3, total())\n", b""),
    ("src/lib.rs", RUST, b"    #[test]\n    fn more", b"    #[test]\n    #[ignore]\n    fn more"),
    ("src/lib.rs", RUST, b"    #[test]\n    fn more", b"    fn more"),
    ("src/lib.rs", RUST, b"#[cfg(test)]\nmod", b"#[cfg(any())]\nmod"),
    ("src/lib.rs", RUST, b"        assert!(price() > 0);\n", b""),
    ("src/lib.rs", RUST, b"assert!(price() > 0)", b"assert!(true)"),
    ("src/lib.rs", RUST, RUST[RUST.index(b"#[cfg") :], b""),
    ("src/PriceTest.java", JAVA, b"    @Test\n", b"    @Test\n    @Disabled\n"),
    ("src/PriceTest.java", JAVA, b"    @Test\n", b""),
    ("src/PriceTest.java", JAVA, b'        assertEquals(1, shop.price("a"));\n', b""),
    ("src/PriceTest.java", JAVA, b'        assertEquals(1, shop.price("a"));\n', b"        assertEquals(1, 1);\n"),
    ("src/PriceTest.kt", KOTLIN, b"    @Test\n", b"    @Test\n    @Ignore\n"),
    ("src/PriceTest.kt", KOTLIN, b'assertEquals(1, shop.price("a"))', b"println(1)"),
    ("src/PriceTests.cs", CSHARP, b"[Fact]", b'[Fact(Skip = "later")]'),
    ("src/PriceTests.cs", CSHARP, b'Assert.Equal(1, shop.Price("a"));', b""),
    ("Sources/PriceTests.swift", SWIFT, b"func testPrice", b"func checkPrice"),
    ("Sources/PriceTests.swift", SWIFT, b'XCTAssertEqual(price("a"), 1)', b"XCTAssertTrue(true)"),
    ("src/PriceTest.php", PHP, b"testPrice", b"price"),
    ("src/PriceTest.php", PHP, b"    /** @test */\n", b""),
    (
        "src/PriceTest.php",
        PHP,
        b"        $this->assertSame(3",
        b"        $this->markTestSkipped();\n        $this->assertSame(3",
    ),
    ("lib/price_spec.rb", RUBY, b"  it 'adds'", b"  xit 'adds'"),
    ("lib/price_spec.rb", RUBY, b"    expect(add(1, 2)).to eq(3)\n", b""),
    ("lib/price_test.rb", MINITEST, b"def test_price", b"def price"),
    ("lib/price_test.rb", MINITEST, b"    assert", b"    skip\n    assert"),
]


@pytest.mark.parametrize(("path", "old", "what", "instead"), OTHERS)
def test_a_test_of_another_language_that_proves_less_blocks(path: str, old: bytes, what: bytes, instead: bytes) -> None:
    assert what in old
    findings = found(weakened_tests, changed(path, old, old.replace(what, instead)))
    assert {(each.code, each.blocking) for each in findings} == {("tests_weakened", True)}


@pytest.mark.parametrize(
    ("path", "old"),
    [
        *(("a.test.js", JS), ("a_test.go", GO), ("src/lib.rs", RUST), ("PriceTest.java", JAVA), ("PriceTest.kt", KOTLIN)),
        *(("PriceTests.cs", CSHARP), ("PriceTests.swift", SWIFT), ("PriceTest.php", PHP), ("a_spec.rb", RUBY)),
    ],
)
def test_a_test_that_changes_its_words_or_grows_is_no_finding(path: str, old: bytes) -> None:
    assert not found(weakened_tests, changed(path, old, old.replace(b"price", b"cost").replace(b"Price", b"Cost") + b"\n"))
    assert not found(weakened_tests, changed(path, None, old))


KEPT: dict[str, bytes] = {
    "a test gets another name": py(b"def test_price", b"def test_price_of_one_item"),
    "a test is split": py(b'    assert price("b") == 2\n', b'\n\ndef test_price_b():\n    assert price("b") == 2\n'),
    "a class around tests": py(
        b"def test_total():\n    assert", b"class TestTotal:\n    def test_total(self):\n        assert"
    ),
    "a condition gets longer": py(b'price("a") == 1', b'price("a") == 1 or price("a") == 2'),
    "a loop instead of lines": PYTHON.replace(
        CASE, b"    for item in items:\n        check_price(item)\n        check_type(item)\n"
    ),
    "an assertion moves into a helper": PYTHON.replace(CASE, b"    both()\n") + b"\n\ndef both():\n" + CASE,
    "an exception is checked": py(CASE, CASE + b"    try:\n        price('q')\n    except KeyError:\n        pass\n"),
    "formatting and comments": PYTHON.replace(b'"', b"'").replace(CASE, b"    # the price\n" + CASE),
    "tests are sorted": PYTHON[: PYTHON.index(b"def test_price")]
    + PYTHON[PYTHON.index(b"def test_total") :]
    + b"\n\ndef test_price():\n"
    + CASE,
    "a new test that is skipped": PYTHON + b"\n\n@pytest.mark.skip\ndef test_later():\n    assert price(1)\n",
}


@pytest.mark.parametrize("what", KEPT)
def test_what_keeps_a_test_is_no_finding(what: str) -> None:
    assert not words(*found(weakened_tests, changed("tests/test_a.py", PYTHON, KEPT[what])))


def test_tests_that_become_rows_of_one_are_kept() -> None:
    old = b"".join(b"def test_%d():\n    assert f(%d)\n\n" % (n, n) for n in range(3))
    assert not found(weakened_tests, changed("tests/test_a.py", old, ROWS))
    assert found(weakened_tests, changed("tests/test_a.py", old, ROWS.replace(b"[1, 2, 3]", b"[1]")))


def test_a_test_that_moves_to_another_file_of_the_change_is_kept() -> None:
    start, end = PYTHON.index(b"def test_total"), PYTHON.index(b"class TestErrors")
    left = changed("tests/test_a.py", PYTHON, PYTHON[:start] + PYTHON[end:])
    assert found(weakened_tests, left)
    assert not found(
        weakened_tests, left, changed("tests/test_total.py", None, b"from shop import total\n" + PYTHON[start:end])
    )
    gone = changed("tests/test_a.py", PYTHON, None)
    assert not found(
        weakened_tests, gone, changed("tests/unit/test_a.py", None, PYTHON.replace(b"import price", b"import cost"))
    )


DOCTEST = b'def f():\n    """What f is.\n\n    >>> f()\n    1\n    >>> f() + 1\n    2\n    """\n    return 1\n'


def test_a_removed_doctest_is_reported_and_blocks_where_doctests_run() -> None:
    from gatewright.contracts.vocabulary import AcceptanceTest
    from gatewright.services.reviewer.subject import Subject
    from tests.factories import make_contract

    doctests = (AcceptanceTest(name="t", cmd="python -m pytest --doctest-modules", must_pass=True),)
    for new in (DOCTEST.replace(b"    >>> f() + 1\n    2\n", b""), DOCTEST.replace(b"f() + 1", b"f() + 1  # doctest: +SKIP")):
        file = changed("src/a.py", DOCTEST, new)
        assert [finding.blocking for finding in found(weakened_tests, file)] == [False]
        subject = Subject(make_contract(acceptance_tests=doctests), (file,), 1000)
        assert [finding.blocking for finding in weakened_tests(subject)] == [True]
    assert not found(weakened_tests, changed("src/a.py", DOCTEST, b"def g():\n    return 1\n"))
