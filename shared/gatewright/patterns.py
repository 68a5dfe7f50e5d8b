"""Patterns for untrusted text: matched by RE2, which takes time linear in the text for every pattern.

The standard library's engine backtracks, and can be made to take quadratic time or far more while it holds the
interpreter lock; RE2 releases the lock. It has no lookaround and no back references; ``\\w``, ``\\d`` and
``\\b`` mean ASCII, ``\\z`` is the end of the text; flags are in the pattern, as ``(?im)``.

The author of a pattern for repeated searches (``count``, ``findall``) must ensure one rule: what follows an
unbounded repetition must be able to end it, else each search may go to the end of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self

import re2  # noqa: TID251 - the one place

_SURROGATES = "surrogatepass"


class BytesPattern:
    """Over bytes of any encoding: one character a byte."""

    def __init__(self, pattern: bytes) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        self._compiled: Any = re2.compile(pattern, options)  # type: ignore[no-untyped-call]

    @classmethod
    def either(cls, patterns: Iterable[Self]) -> Self:
        """Return a pattern that matches where any of ``patterns`` does; without any it matches nothing."""
        return cls(b"|".join(b"(?:" + each._compiled.pattern + b")" for each in patterns) or rb"\z.")  # noqa: SLF001 - of its own class

    def fullmatch(self, data: bytes) -> bool:
        """Return whether all of ``data`` matches."""
        return self._compiled.fullmatch(data) is not None

    def first(self, data: bytes) -> bytes | None:
        """The first match, or None."""
        found = self._compiled.search(data)
        return None if found is None else bytes(found[0])

    def count(self, data: bytes) -> int:
        """Return the number of matches without overlaps."""
        return sum(1 for _ in self._compiled.finditer(data))

    def groups(self, data: bytes) -> Iterator[bytes]:
        """The first group of each match, or empty."""
        return (bytes(found[1] or b"") for found in self._compiled.finditer(data))

    def is_in(self, data: bytes) -> bool:
        """Return whether there is a match anywhere."""
        return self._compiled.search(data) is not None

    def spans(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield for each match: the number of the last group that took part, from 1, with its start and end."""
        for found in self._compiled.finditer(data):
            start, end = found.span(found.lastindex)
            yield found.lastindex, start, end


class TextPattern:
    """Over text; a lone surrogate is a character like another."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        self._compiled: Any = re2.compile(pattern.encode(), options)  # type: ignore[no-untyped-call]
        self._groups = tuple((name.decode(), number) for name, number in self._compiled.groupindex.items())

    def fullmatch(self, text: str) -> dict[str, str] | None:
        """The named groups that took part when all of ``text`` matches; None when it does not."""
        found = self._compiled.fullmatch(_encode(text))
        if found is None:
            return None
        return {name: _decode(value) for name, number in self._groups if (value := found[number]) is not None}

    def begins(self, text: str) -> bool:
        """Return whether ``text`` begins with a match."""
        return self._compiled.match(_encode(text)) is not None

    def is_in(self, text: str) -> bool:
        """Return whether there is a match anywhere."""
        return self._compiled.search(_encode(text)) is not None

    def findall(self, text: str) -> list[str]:
        """Return the text of every match."""
        return [_decode(found[0]) for found in self._compiled.finditer(_encode(text))]

    def without(self, text: str) -> str:
        """``text`` with every match taken out."""
        return self.replaced(text, "")

    def replaced(self, text: str, instead: str) -> str:
        """``text`` with ``instead`` in the place of every match; ``\\1`` in it is the first group."""
        return _decode(self._compiled.sub(instead.encode(), _encode(text)))


#: Raised for an invalid pattern, or one that takes more memory than permitted.
PatternError = re2.error


def is_pattern(text: str) -> bool:
    """Return whether ``text``, a stranger's own pattern, is usable."""
    try:
        TextPattern(text)
    except (re2.error, UnicodeEncodeError):
        return False
    return True


def _encode(text: str) -> bytes:
    return text.encode("utf-8", _SURROGATES)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", _SURROGATES)
