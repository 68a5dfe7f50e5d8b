"""Tests counted by patterns, for a language without a grammar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatewright.patterns import BytesPattern

_CASES = BytesPattern(
    rb"(?m)^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*|^[ \t]*(?:it|test|specify)(?:\.each\b.*?)?[ \t]*\(|^func[ \t]+Test\w*"
    rb"|^[ \t]*@(?:Parameterized)?Test\b|^[ \t]*#\[(?:\w+::)?test\b|^[ \t]*\[(?:Test|Fact|Theory)\b"
    rb"|^[ \t]*(?:static[ \t]+)?void[ \t]+test\w*[ \t]*\("
    rb"|^[ \t]*(?:START_TEST|TEST(?:_F|_P|_CASE)?|SCENARIO|BOOST_\w*TEST_CASE)[ \t]*\("
)
_ASSERTIONS = BytesPattern(
    rb"\bassert\w*|\bexpect[ \t]*\(|\bpytest\.(?:raises|warns)\b|\.should\b|\brequire\.\w+\(|\bt\.(?:Error|Fatal)f?\b"
    rb"|\b(?:EXPECT_|ASSERT_|REQUIRE|CHECK|TEST_ASSERT|BOOST_(?:CHECK|REQUIRE|TEST)|CU_ASSERT|ck_assert|g_assert)\w*[ \t]*\("
)
_SKIPS = BytesPattern(
    rb"\bmark\.(?:skip|skipif|xfail)\b|\bpytest\.(?:skip|xfail|importorskip)\b|\bunittest\.(?:skip\w*|expectedFailure)\b"
    rb"|@skip\w*|\b(?:it|test|describe)\.(?:skip|todo|fixme)\b|\bx(?:it|describe|test)[ \t]*\(|@(?:Disabled|Ignore)\b"
    rb"|#\[ignore\b|\bt\.Skip\w*\(|\.skipTest\(|\bGTEST_SKIP\b|\bDISABLED_\w|\bTEST_IGNORE\w*\(|(?m:^[ \t]*#[ \t]*if[ \t]+0\b)"
)


@dataclass(frozen=True, slots=True)
class _Strength:
    """How much a file seems to prove."""

    cases: int
    assertions: int
    skips: int


def counted_losses(old: bytes, new: bytes) -> Iterator[str]:
    """What ``new`` seems to prove less than ``old``, in words. Crude: it is for what cannot be read by meaning."""
    before, after = _strength(old), _strength(new)
    if after.cases < before.cases:
        yield f"{before.cases} test cases became {after.cases}"
    if after.assertions < before.assertions:
        yield f"{before.assertions} assertions became {after.assertions}"
    if after.skips > before.skips:
        yield f"{after.skips - before.skips} more case(s) are skipped or expected to fail"


def _strength(content: bytes) -> _Strength:
    return _Strength(*(pattern.count(content) for pattern in (_CASES, _ASSERTIONS, _SKIPS)))
