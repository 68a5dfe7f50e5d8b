"""Which tests of changed files are as they were, by their texts."""

from __future__ import annotations

from gatewright.ecosystems.test_syntax.comparing import ComparedTests, compare_tests, key_of_test

OLD = b"class TestA:\n    def test_a(self):\n        assert f(1)\n\n\n"
OLD += b"def test_b():\n    assert 1\n\n\ndef test_c():\n    assert g()\n"


def test_kept_changed_and_renamed_tests_are_distinguished() -> None:
    new = OLD.replace(b"f(1)", b"f(2)").replace(b"test_c", b"test_d") + b"\n\ndef test_e():\n    assert h()\n"
    found = compare_tests({"tests/test_a.py": (OLD, new)})
    assert found == {"tests/test_a.py": ComparedTests(kept={"testb"}, changed={"TestAtesta"}, moved={"testd"})}


def test_each_test_that_is_gone_explains_one_that_came() -> None:
    new = b"def test_one():\n    assert 1\n\n\ndef test_two():\n    assert 1\n"
    found = compare_tests({"tests/test_a.py": (OLD, None), "tests/test_b.py": (None, new)})
    assert found["tests/test_b.py"] == ComparedTests(moved={"testone"})


def test_a_file_that_does_not_parse_is_left_out() -> None:
    assert compare_tests({"tests/test_a.py": (OLD, b"def test_b(:\n"), "tests/a.bats": (b"", b"@test")}) == {}


def test_runners_and_readers_name_a_test_alike() -> None:
    assert {key_of_test(name) for name in ("TestA::test_a", "TestA.test_a", "TestA > test_a")} == {"TestAtesta"}
