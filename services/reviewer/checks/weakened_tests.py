"""Tests that prove less than before: deleted, with fewer cases or assertions, or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatewright.contracts.reports import Finding
from gatewright.patterns import BytesPattern
from gatewright.services.reviewer.subject import Subject

_DIRECTORIES = frozenset({b"test", b"tests", b"__tests__", b"spec", b"specs"})
_NAMES = BytesPattern(rb"test_.*\.py|.*_test\.\w+|.*_spec\.\w+|.*\.(?:test|spec)\.\w+|conftest\.py|.*Tests?\.(?:java|kt|cs)")

_CASES = BytesPattern(
    rb"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*|^[ \t]*(?:it|test|specify)(?:\.each\b.*?)?[ \t]*\(|^func[ \t]+Test\w*"
    rb"|^[ \t]*@(?:Parameterized)?Test\b|^[ \t]*#\[(?:\w+::)?test\b|^[ \t]*\[(?:Test|Fact|Theory)\b"
)
_ASSERTIONS = BytesPattern(
    rb"\bassert\w*|\bexpect[ \t]*\(|\bpytest\.(?:raises|warns)\b|\.should\b|\brequire\.\w+\(|\bt\.(?:Error|Fatal)f?\b"
)
_SKIPS = BytesPattern(
    rb"\bmark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\b|\bunittest\.(?:skip\w*|expectedFailure)\b"
    rb"|@skip\w*|\b(?:it|test|describe)\.(?:skip|todo|fixme)\b|\bx(?:it|describe|test)[ \t]*\(|@(?:Disabled|Ignore)\b"
    rb"|#\[ignore\b|\bt\.Skip\w*\(|\.skipTest\("
)


@dataclass(frozen=True, slots=True)
class _Strength:
    """How much a file seems to prove."""

    cases: int
    assertions: int
    skips: int


def weakened_tests(subject: Subject) -> Iterator[Finding]:
    """Blocking unless the contract opens the path: a deleted test file, fewer cases, fewer assertions, more skips.

    Counting is crude; a change of tests that is meant belongs into ``scope.allow_protected_paths``.
    """
    arrived = {file.change.new_id for file in subject.files if file.change.status == "A" and is_test(file.path)}
    for file in subject.files:
        if not is_test(file.path) or file.old is None:
            continue
        blocking = not subject.is_opened(file.path)
        if file.new is None:
            if file.change.old_id not in arrived:
                yield file.finding("tests_weakened", "a test file is deleted", blocking=blocking)
            continue
        for words in _losses(_strength(file.old), _strength(file.new)):
            yield file.finding("tests_weakened", words, blocking=blocking)


def is_test(path: bytes) -> bool:
    """Whether ``path`` is a test, or lies among tests, by the usual names."""
    *directories, name = path.split(b"/")
    return not _DIRECTORIES.isdisjoint(part.lower() for part in directories) or _NAMES.fullmatch(name)


def _strength(content: bytes) -> _Strength:
    return _Strength(*(pattern.count(content) for pattern in (_CASES, _ASSERTIONS, _SKIPS)))


def _losses(old: _Strength, new: _Strength) -> Iterator[str]:
    if new.cases < old.cases:
        yield f"{old.cases} test cases became {new.cases}"
    if new.assertions < old.assertions:
        yield f"{old.assertions} assertions became {new.assertions}"
    if new.skips > old.skips:
        yield f"{new.skips - old.skips} more case(s) are skipped or expected to fail"
