"""Comments and attributes that silence a tool, and those that a change adds.

Pure, linear; the input is hostile.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from gatewright.ecosystems.suppressions.rows import Language, Reach, Row
from gatewright.ecosystems.suppressions.syntax import Split, split
from gatewright.ecosystems.suppressions.table import language_of
from gatewright.patterns import BytesPattern

#: Bytes of a file that are looked through.
MOST_BYTES: Final = 1 << 20
#: Maximum suppressions distinguished in one file.
MOST_OF_ONE_FILE: Final = 2000
#: Suppressions, old and new, and bytes of all files of a change that are compared.
_MOST_OF_ALL: Final = 20_000
_MOST_BYTES_OF_ALL: Final = 512 << 20
#: Maximum quoted bytes.
_MOST_WORDS: Final = 80
#: git's heuristic: a NUL this early makes a file binary.
_SNIFFED: Final = 8000
_BLANKS: Final = b" \t\r\n\f\v"
_ENDS_OF_COMMENTS: Final = (b"*/", b"-->", b"-}", b"#}", b"*)")
#: Key, tools and, of a suppression for a whole file, the path.
_Identity = tuple[bytes, str, bytes]


class Suppression(NamedTuple):
    """A suppression: ``words`` in ``line`` (from 1) silence ``tools``; ``reach`` describes the extent for people.

    ``whole_file``: for all of the file, or from there to its end. ``key`` stays the same if a suppression only moves: it is
    made of the line, and of the next one if a comment is alone on its line.
    """

    tools: str
    words: str
    line: int
    reach: str
    whole_file: bool
    key: bytes


def suppressions_in(path: bytes, content: bytes) -> tuple[Suppression, ...]:
    """Return the suppressions of a file in order, at most ``MOST_OF_ONE_FILE``; none for a large or binary file."""
    language = language_of(path)
    if language is None or not is_searched(content) or not _any_of(language).is_in(content):
        return ()
    found = sorted(_find_suppressions(content, language), key=lambda each: each.line)
    return tuple(found[:MOST_OF_ONE_FILE])


def is_searched(content: bytes) -> bool:
    """Return whether a file is text and small enough to be searched."""
    return len(content) <= MOST_BYTES and b"\0" not in content[:_SNIFFED]


class SuppressionDiff:
    """Gathers the suppressions that a change adds, file by file.

    A moved suppression is not new, wherever in the change it was before. One for a whole file is only compared with the
    same file or a deleted one: elsewhere it silences new code. ``unsearched`` are the files that were too large or too
    many.
    """

    def __init__(self) -> None:
        self.unsearched: list[bytes] = []
        self._removed: Counter[_Identity] = Counter()
        self._new: list[tuple[bytes, Suppression]] = []
        self._left = _MOST_OF_ALL
        self._bytes_left = _MOST_BYTES_OF_ALL

    def compare(self, path: bytes, old: bytes | None, new: bytes | None) -> None:
        """Take in a changed file; None is one that is not there."""
        if language_of(path) is None:
            return
        self._bytes_left -= len(old or b"") + len(new or b"")
        if self._left <= 0 or self._bytes_left < 0 or len(new or b"") > MOST_BYTES:
            self.unsearched.append(path)
            return
        before, after = [suppressions_in(path, each) if each is not None else () for each in (old, new)]
        self._left -= len(before) + len(after)
        removed = Counter(_identity(each, path if new is not None else b"") for each in before)
        kept = removed & Counter(_identity(each, path) for each in after)
        self._removed += removed - kept
        for each in after:
            identity = _identity(each, path)
            if kept[identity]:
                kept[identity] -= 1
            else:
                self._new.append((path, each))

    def added(self) -> Iterator[tuple[bytes, Suppression]]:
        """Yield path and suppression of each new one in the change."""
        removed = self._removed.copy()
        for path, each in self._new:
            places = (_identity(each, path), _identity(each, b""))
            place = next((known for known in places if removed[known]), None)
            if place is None:
                yield path, each
            else:
                removed[place] -= 1


def silences(suppression: Suppression, tool: str) -> bool:
    """Return whether a suppression disables ``tool`` for a whole file."""
    return suppression.whole_file and tool in suppression.tools.split(", ")


def files_without(tool: str, files: Iterable[tuple[bytes, bytes]]) -> tuple[str, ...]:
    """Those of ``files`` (path and content) in which ``tool`` is switched off, sorted."""
    off = {path for path, content in files for each in suppressions_in(path, content) if silences(each, tool)}
    return tuple(sorted(path.decode("utf-8", "replace") for path in off))


def _identity(suppression: Suppression, home: bytes) -> _Identity:
    return suppression.key, suppression.tools, home if suppression.whole_file else b""


class _Lines:
    """The lines of a content, with their offsets."""

    def __init__(self, content: bytes) -> None:
        self.lines = content.split(b"\n")
        self._starts = [0]
        for line in self.lines[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._digests: dict[int, bytes] = {}
        self._blank: dict[int, bool] = {}
        self._first = next((number for number, line in enumerate(self.lines, start=1) if line.strip()), len(self.lines) + 1)

    def number(self, offset: int) -> int:
        """Return the line number, from 1."""
        return bisect_right(self._starts, offset)

    def words(self, offset: int) -> bytes:
        """Return the rest of the line from ``offset``, as far as it is quoted."""
        number = self.number(offset)
        begin = offset - self._starts[number - 1]
        return self.lines[number - 1][begin : begin + _MOST_WORDS + 1]

    def is_blank(self, number: int) -> bool:
        """Return whether a line has blanks only."""
        if number not in self._blank:
            self._blank[number] = not self.lines[number - 1].strip()
        return self._blank[number]

    def begin_with(self, number: int) -> bool:
        """Return whether only blanks precede a line."""
        return number <= self._first

    def key(self, number: int, *, with_next: bool) -> bytes:
        """A digest of a line without its blanks, and of the next one that has text."""
        following = next((each for each in range(number, min(number + 20, len(self.lines))) if self.lines[each].strip()), None)
        after = self._digest_line(following + 1) if with_next and following is not None else b""
        return self._digest_line(number) + after

    def _digest_line(self, number: int) -> bytes:
        if number not in self._digests:
            words = b" ".join(self.lines[number - 1].split())
            self._digests[number] = hashlib.blake2b(words, digest_size=16).digest()
        return self._digests[number]


class _File(NamedTuple):
    parts: Split
    lines: _Lines
    #: Without comments.
    bare: _Lines


def _find_suppressions(content: bytes, language: Language) -> Iterator[Suppression]:
    parts = split(content, language.syntax)
    file = _File(parts, _Lines(content), _Lines(parts.rest))
    for in_code, text in ((False, parts.comments), (True, parts.code)):
        rows = tuple(row for row in language.rows if row.in_code == in_code)
        ends: dict[Row, list[int]] = {}
        for group, start, _ in islice(_together(rows).spans(text), MOST_OF_ONE_FILE) if rows else ():
            row = rows[group - 1]
            if row.until and row not in ends:
                ends[row] = [file.lines.number(at) for _, at, _ in _until(row.until).spans(text)]
            # A pattern may begin with the blanks before a comment.
            at = next((each for each in range(start, len(text)) if text[each] not in _BLANKS), start)
            yield _suppression(row, at, file, ends.get(row, []))


def _suppression(row: Row, at: int, file: _File, ends: Sequence[int]) -> Suppression:
    number = file.lines.number(at)
    alone = not row.in_code and file.bare.is_blank(number)
    reach = row.reach
    if reach is Reach.ALONE:
        reach = Reach.BLOCK if alone else Reach.LINE
    if reach is Reach.FIRST:
        reach = Reach.FILE if alone and file.bare.begin_with(number) else Reach.LINE
    after = bisect_right(ends, number)
    last = ends[after] if reach is Reach.BLOCK and after < len(ends) else None
    whole = reach is Reach.FILE or (reach is Reach.BLOCK and last is None)
    if reach is Reach.FILE or (whole and number == 1):
        words = "in the whole file"
    elif whole:
        words = "from here to the end of the file"
    else:
        words = "on this line" if last is None else f"up to line {last}"
    key = file.lines.key(number, with_next=alone and not whole)
    return Suppression(row.tools, _quote_words(file.lines.words(at)), number, words, whole, key)


def _quote_words(words: bytes) -> str:
    more = "..." if len(words) > _MOST_WORDS else ""
    for end in _ENDS_OF_COMMENTS:
        words = words.partition(end)[0]
    return words[:_MOST_WORDS].decode("utf-8", "replace").strip() + more


@cache
def _together(rows: tuple[Row, ...]) -> BytesPattern:
    """Return a pattern with one group for each of ``rows``."""
    return BytesPattern(b"|".join(b"(" + row.pattern + b")" for row in rows))


@cache
def _any_of(language: Language) -> BytesPattern:
    return BytesPattern(b"|".join(b"(?:" + row.pattern + b")" for row in language.rows))


@cache
def _until(pattern: bytes) -> BytesPattern:
    return BytesPattern(b"(" + pattern + b")")
