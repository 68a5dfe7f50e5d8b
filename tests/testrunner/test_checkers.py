"""Tools that check sources: no test, and never counted as one; it is said whether they look at the change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gatewright.ecosystems.checkers import checker_of
from gatewright.rules.reports.proof import in_words, proof_clauses
from tests.ecosystems.suites import Suite, codes, proof_of
from tests.ecosystems.tools import needs

#: The environment of the tests themselves.
WITH_RUFF = Path(sys.prefix)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ruff check .", "ruff check"),
        ("python -m ruff check src", "ruff check"),
        ("python -m mypy", "mypy"),
        ("npx --no-install tsc --noEmit", "tsc"),
        ("go vet ./...", "go vet"),
        ("cargo clippy", "cargo clippy"),
        ("ruff check --fix", ""),
        ("ruff format --check .", ""),
        ("go test ./...", ""),
        ("make lint", ""),
        ("make -j4 check", "make check"),
    ],
)
def test_a_tool_is_known_by_its_words(line: str, name: str) -> None:
    found = checker_of(line.split())
    assert (found.name if found is not None else "") == name


async def test_a_checker_notices_the_changed_file_without_proving_tests(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"src/a.py": b"A = 1\n"}, prefix=WITH_RUFF)

    report = await suite.tested({"src/a.py": b"A = 2\n"}, "ruff check --isolated --no-cache .")

    assert report.status == "PASS", suite.printed(report)
    assert in_words(proof_of(report)).endswith("ruff check noticed an error planted in src/a.py")
    assert codes(suite.judged(report)) == ["tests_unproven"]


async def test_a_check_that_skips_the_changed_file_is_reported(tmp_path: Path) -> None:
    files = {"src/a.py": b"A = 1\n", "ruff.toml": b'extend-exclude = ["src"]\n', "b.py": b"B = 1\n"}
    suite = Suite(tmp_path, files, prefix=WITH_RUFF)

    report = await suite.tested({"src/a.py": b"A = 2\n"}, "ruff check --no-cache .")

    assert (report.status, in_words(proof_of(report)).rpartition("; ")[2]) == (
        "PASS",
        "ruff check did not notice an error planted in src/a.py",
    )


async def test_file_that_switches_the_tool_off_is_named(tmp_path: Path) -> None:
    suite = Suite(tmp_path, {"src/a.py": b"A = 1\n"}, prefix=WITH_RUFF)
    changed = {"src/a.py": b"# ruff: noqa\nA = undefined\n"}

    report = await suite.tested(changed, "ruff check --isolated --no-cache .")

    check = proof_of(report).check
    assert check is not None
    assert check.switched_off == ("src/a.py",)
    words = "ruff check is switched off by the text of src/a.py; it noticed an error planted in src/a.py"
    assert [(each.words, each.doubtful) for each in proof_clauses(proof_of(report))][-1] == (words, True)


PROGRAM = {
    "src/add.c": b"int add(int one, int other) { return one + other; }\n",
    "check.c": b"int add(int, int);\nint main(void) { return add(1, 2) != 3; }\n",
    "Makefile": b"check: checks\n\t./checks\nchecks: check.c src/add.c\n\t$(CC) -o $@ check.c src/add.c\n",
}


@needs("make", "cc")
@pytest.mark.parametrize(
    ("makefile", "program", "noticed"),
    [
        (PROGRAM["Makefile"], "./checks", "noticed"),
        (PROGRAM["Makefile"].replace(b"\t./", b"\t-./"), "./checks", "did not notice"),
        (b"check:\n\ttest -s check.c\n", "test", "did not notice"),
    ],
)
async def test_programs_started_by_make_are_reported_as_built_or_not(
    tmp_path: Path, makefile: bytes, program: str, noticed: str
) -> None:
    suite = Suite(tmp_path, {**PROGRAM, "Makefile": makefile})
    report = await suite.tested({"src/add.c": b"int add(int a, int b) { return b + a; }\n"}, "make check")
    words = f"{program}, which make starts, is not a known test framework: only its exit code is reported"
    told = f"unproven: {words}; make check {noticed} an error planted in src/add.c"
    assert (report.status, in_words(proof_of(report))) == ("PASS", told), suite.printed(report)
    assert codes(suite.judged(report)) == ["tests_unproven"]
