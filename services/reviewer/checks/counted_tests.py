"""Tests counted by patterns, for a language without a grammar."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gatewright.patterns import BytesPattern

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
