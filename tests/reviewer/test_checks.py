"""Each check on its own: what it stops, and what looks similar and is no fault."""

from __future__ import annotations

import time

import pytest

from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Scope
from gatewright.ecosystems.runner.names import is_test
from gatewright.git.changes import TreeChange
from gatewright.services.reviewer.checks import Check
from gatewright.services.reviewer.checks.contents import conflict_markers, secrets
from gatewright.services.reviewer.checks.files import file_kinds, paths
from gatewright.services.reviewer.checks.weakened_tests import weakened_tests
from gatewright.services.reviewer.subject import ChangedFile, Subject
from tests.factories import make_contract

ABSENT, FILE = "000000", "100644"
CASE = b"def test_a():\n    assert f() == 1\n    assert g() == 2\n"
CONFLICT = b"a\n<<<<<<< ours\nb\n=======\nc\n>>>>>>> theirs\nd\n"


def changed(path: str, old: bytes | None, new: bytes | None, *, mode: str = FILE) -> ChangedFile:
    status = "A" if old is None else "D" if new is None else "M"
    ids = [ABSENT if content is None else f"{hash(content) & 0xFFFFFF:06x}" for content in (old, new)]
    change = TreeChange(path.encode(), ABSENT if old is None else FILE, ABSENT if new is None else mode, ids[0], ids[1], status)
    return ChangedFile(change, old, new)


def found(check: Check, *files: ChangedFile, scope: Scope | None = None, limit: int = 1000) -> list[Finding]:
    return list(check(Subject(make_contract(scope=scope), files, limit)))


def codes(check: Check, *files: ChangedFile, scope: Scope | None = None) -> list[tuple[str, bool]]:
    return [(finding.code, finding.blocking) for finding in found(check, *files, scope=scope)]


def test_a_path_out_of_scope_blocks() -> None:
    assert codes(paths, changed("src/a.py", b"", b"x"), changed("src2/a.py", b"", b"x")) == [("path_out_of_scope", True)]
    assert codes(paths, changed("README.md", b"x", None)) == [("path_out_of_scope", True)]


@pytest.mark.parametrize(("mode", "code"), [("120000", "symlink_refused"), ("160000", "submodule_refused")])
def test_links_and_submodules_block(mode: str, code: str) -> None:
    assert codes(paths, changed("src/a", None, b"/etc", mode=mode)) == [(code, True)]


def test_a_path_that_is_no_text_is_shown_without_harm() -> None:
    change = TreeChange(b"\xff\x1b[31m", ABSENT, FILE, "0", "1", "A")
    (finding,) = found(paths, ChangedFile(change, None, b""))
    assert finding.path is not None
    assert finding.path.isprintable()


def test_an_unfinished_merge_blocks_where_it_begins() -> None:
    (finding,) = found(conflict_markers, changed("src/a.py", b"a\nd\n", CONFLICT))
    assert (finding.code, finding.blocking, finding.line) == ("conflict_markers", True, 2)
    assert codes(conflict_markers, changed("src/a.py", None, CONFLICT.replace(b"\n", b"\r\n")))


@pytest.mark.parametrize(
    "content",
    [
        b"Title\n=======\n\ntext\n",
        b">>>>>>> quoted mail\n=======\n<<<<<<< x\n",
        b"<<<<<<<<< not a marker\n=======\n>>>>>>>>>\n",
        b"x = 1 <<<<<<< 2\n",
        b"\0" + CONFLICT,
    ],
)
def test_what_only_looks_like_a_conflict_is_none(content: bytes) -> None:
    assert not found(conflict_markers, changed("src/a.rst", None, content))


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("docs/merging.md", b"See:\n\n```\n", b"```\n"),
        ("docs/merging.md", b"1. See:\n   ~~~~diff\n", b"   ~~~~\n"),
        ("docs/merging.markdown", b"````md\n```\n", b"```\n````\n"),
        ("docs/merging.adoc", b"----\n", b"----\n"),
        ("docs/merging.rst", b"Merging\n=======\n\n::\n\n    ", b""),
    ],
)
def test_documentation_may_show_a_conflict_in_a_block_of_code(name: str, before: bytes, after: bytes) -> None:
    shown = CONFLICT.replace(b"\n", b"\n    ") if name.endswith("rst") else CONFLICT
    assert not found(conflict_markers, changed(name, None, before + shown + after))


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("docs/a.md", b""),
        ("docs/a.md", b"```\ncode\n```\n"),
        ("src/a.py", b"```\n"),
        ("docs/a.rst", b""),
    ],
)
def test_a_conflict_outside_of_such_a_block_blocks(name: str, before: bytes) -> None:
    assert found(conflict_markers, changed(name, None, before + CONFLICT))


def test_a_conflict_that_was_there_before_is_not_this_change_s() -> None:
    assert not found(conflict_markers, changed("src/a.md", CONFLICT, CONFLICT + b"more\n"))


@pytest.mark.parametrize(
    "line",
    [
        "key = 'ghp_" + "a1B2" * 9 + "'",
        "AKIA" + "Z7Q3" * 4,
        "-----BEGIN RSA PRIVATE KEY-----" + "MIIEvQIBADANBgkqhkiG9w0BAQEF",
        "-----BEGIN OPENSSH PRIVATE KEY-----" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUA",
        "xoxb-123456789012-abcdefghij",
        "glpat-" + "aB3" * 8,
        "sk_live_" + "4eC39H" * 4,
        "AIza" + "Sy0" * 11 + "ab",
        "npm_" + "a1" * 18,
    ],
)
def test_a_credential_in_an_added_line_blocks_and_is_never_quoted(line: str) -> None:
    (finding,) = found(secrets, changed("src/a.py", b"one\n", f"one\ntwo\n{line}\n".encode()))
    assert (finding.code, finding.blocking, finding.line) == ("secret", True, 3)
    assert line[6:] not in finding.message


@pytest.mark.parametrize(
    "line",
    [
        b"password = getpass()",
        b"token = request.headers['Authorization']",
        b".sk-toggleable__content-arrow { color: red }",
        b"url = 'https://user:pass@example.org/'",
        b"-----BEGIN PUBLIC KEY-----",
        b"header = '-----BEGIN RSA PRIVATE KEY-----'",
        b"AKIAIOSFODNN7EXAMPLE",
        b"sha256:" + b"0123456789abcdef" * 4,
        b"git_commit = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'",
    ],
)
def test_code_about_credentials_is_no_credential(line: bytes) -> None:
    assert not found(secrets, changed("src/a.py", None, line + b"\n"))


def test_a_credential_that_was_there_before_is_not_this_change_s() -> None:
    old = b"AKIA" + b"Z7Q3" * 4 + b"\n"
    assert not found(secrets, changed("src/a.py", old, b"# moved\n" + old))


@pytest.mark.parametrize(
    "path",
    [
        *("tests/a.py", "test/a.js", "src/__tests__/a.ts", "pkg/test_a.py", "pkg/a_test.go", "src/a.spec.ts"),
        *("a.test.js", "conftest.py", "src/FooTest.java", "Tests/data.json"),
    ],
)
def test_tests_are_known_by_their_names(path: str) -> None:
    assert is_test(path.encode())


@pytest.mark.parametrize("path", ["src/a.py", "src/testing.py", "src/latest.py", "contest/a.py", "protest_a.py", "attests/x"])
def test_other_names_are_no_tests(path: str) -> None:
    assert not is_test(path.encode())


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tests/test_a.py", CASE, None),
        ("tests/data.json", b"{}", None),
        ("tests/test_a.py", CASE + b"def test_b():\n    pass\n", CASE),
        ("tests/test_a.py", CASE, CASE.replace(b"    assert g() == 2\n", b"")),
        ("tests/test_a.py", CASE, b"import pytest\n@pytest.mark.skip\n" + CASE),
        ("tests/test_a.py", CASE, b"@pytest.mark.xfail(reason='x')\n" + CASE),
        ("tests/test_a.py", CASE, CASE.replace(b"test_a", b"check_a")),
        ("tests/test_a.py", CASE, CASE.replace(b"    assert f", b"    pytest.skip('later')\n    assert f")),
        ("web/a.test.js", b"it('a', () => { expect(1) })\n", b"it.skip('a', () => { expect(1) })\n"),
        ("web/a.test.js", b"test('a', f)\ntest('b', f)\n", b"test('a', f)\n"),
        ("pkg/a_test.go", b"func TestA(t *testing.T) {\n t.Fatal(1)\n}\n", b"func TestA(t *testing.T) {\n t.Skip()\n}\n"),
        ("src/FooTest.java", b"@Test\nvoid a() {}\n", b"@Disabled\n@Test\nvoid a() {}\n"),
    ],
)
def test_a_test_that_proves_less_blocks_unless_the_contract_opens_it(path: str, old: bytes, new: bytes | None) -> None:
    file = changed(path, old, new)
    assert ("tests_weakened", True) in codes(weakened_tests, file)
    opened = Scope(allow_protected_paths=(path.partition("/")[0],))
    assert {blocking for _, blocking in codes(weakened_tests, file, scope=opened)} == {False}


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("tests/test_a.py", None, CASE),
        ("tests/test_a.py", CASE, CASE + b"def test_b():\n    assert True\n"),
        ("tests/test_a.py", CASE, CASE.replace(b"assert f() == 1", b"self.assertEqual(f(), 1)")),
        ("src/a.py", CASE, b""),
        ("tests/test_a.py", b"@pytest.mark.skip\n" + CASE, CASE),
    ],
)
def test_a_test_that_proves_as_much_is_no_finding(path: str, old: bytes | None, new: bytes) -> None:
    assert not found(weakened_tests, changed(path, old, new))


def test_a_test_file_that_only_moved_is_not_deleted() -> None:
    gone, come = changed("tests/a.py", CASE, None), changed("tests/unit/a.py", None, CASE)
    assert not found(weakened_tests, gone, come)
    out = changed("src/a.py", None, CASE)
    assert codes(weakened_tests, gone, out) == [("tests_weakened", True)]


def test_binary_content_blocks_unless_the_contract_allows_it() -> None:
    file = changed("src/a.bin", None, b"\x7fELF\0")
    assert codes(file_kinds, file) == [("binary_refused", True)]
    assert codes(file_kinds, file, scope=Scope(allow=("binary",))) == [("binary_refused", False)]
    assert not found(file_kinds, changed("src/a.bin", b"\0", None))


def test_a_file_growing_beyond_the_limit_blocks_the_review() -> None:
    assert codes(file_kinds, changed("src/a", None, b"x" * 1001)) == [("file_too_large", True)]
    assert codes(file_kinds, changed("src/a", b"x" * 900, b"x" * 1901)) == [("file_too_large", True)]
    assert codes(file_kinds, changed("src/a", b"x" * 900, b"x" * 1100)) == [("file_too_large", False)]
    gone, come = changed("src/a", b"x" * 2000, None), changed("lib/b", None, b"x" * 2000)
    assert codes(file_kinds, gone, come) == [("file_too_large", False)]
    assert codes(file_kinds, changed("src/a", b"x" * 2000, b"x" * 2001)) == [("file_too_large", False)]
    assert not found(file_kinds, changed("src/a", b"x", b"x" * 1000))


@pytest.mark.parametrize("unit", [b"it" * 50, b"<<<<<<< a\n", b"it.each ", b"a" * 999 + b"\n", b"eyJ" * 40, b"\n"])
def test_hostile_content_costs_linear_time(unit: bytes) -> None:
    content = unit * (150_000 // len(unit))
    started = time.process_time()
    for check in (conflict_markers, secrets, weakened_tests):
        found(check, changed("tests/test_a.py", b"x", content))
    assert time.process_time() - started < 3
