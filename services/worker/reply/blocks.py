"""A reply cut into what may hold files: fenced blocks, header sections and heredocs, each with the words before it.

Fences follow CommonMark 0.31 section 4.5 (a fence is closed by one at least as long, of the same character, without words after
it), so that a block may show fences of its own. Two liberties are taken, because lists are written carelessly: a fence may be
indented by any amount, and it may follow a list marker. Nothing is decided here about names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.errors import ExtractionError
from gatewright.services.worker.reply.heredoc import Heredoc, heredoc_at
from gatewright.services.worker.reply.labels import language_of

_OPENING = re.compile(r"(?P<indent>[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>.*)")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_CLOSING = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_HEADER = re.compile(r"-{3,}[ \t]*(?:file|filename)[ \t]*:(?P<rest>.*)", re.IGNORECASE)  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: A closing fence may be indented this much more than its opening (CommonMark 0.31, section 4.5).
_SLACK = 3
#: The least number of dashes at either end of a header line.
_RULE = 3


class UnclosedError(ExtractionError):
    """A fence is opened and never closed: the reply was cut off, or wraps itself in a fence that its own content closes."""


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block. ``line`` is the number of its opening line, ``words`` the paragraph before it, last line last.

    ``header`` is the path of a header line directly before it; ``adjoining``: only blank lines separate it from the block
    before.
    """

    line: int
    info: str
    content: tuple[str, ...]
    words: tuple[str, ...] = ()
    header: str | None = None
    adjoining: bool = False

    @property
    def language(self) -> str:
        """The language of the info string, in lower case; empty for none."""
        return language_of(self.info)


@dataclass(frozen=True, slots=True)
class Section:
    """What follows a ``--- filename: path ---`` line, up to the next one or the end."""

    line: int
    path: str
    content: tuple[str, ...]


Element = Fence | Section | Heredoc


@dataclass(frozen=True, slots=True)
class _Opening:
    indent: str
    fence: str
    info: str

    def closed_by(self, line: str) -> bool:
        found = _CLOSING.fullmatch(line)
        return (
            found is not None
            and found["fence"][0] == self.fence[0]
            and len(found["fence"]) >= len(self.fence)
            and len(found["indent"]) - len(self.indent) <= _SLACK
        )


def scan(lines: Sequence[str], *, fences_only: bool = False) -> list[Element]:
    """Everything in a reply that may hold a file, in order. ``lines`` have no line ends.

    Raises ExtractionError for a fence, heredoc or section that has no clear end.
    """
    return _Scanner(lines, fences_only=fences_only).scan()


def is_closed_at(lines: Sequence[str], start: int, end: int) -> bool:
    """Whether line ``start`` opens a fence that line ``end`` could close."""
    opening = _opening(lines[start])
    return opening is not None and opening.closed_by(lines[end])


class _Scanner:
    def __init__(self, lines: Sequence[str], *, fences_only: bool) -> None:
        self._lines = lines
        self._fences_only = fences_only
        self._at = 0
        self._elements: list[Element] = []
        self._words: list[str] = []

    def scan(self) -> list[Element]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if (opening := _opening(line)) is not None:
                self._take_fence(opening)
            elif not self._fences_only and (header := _header(line)) is not None:
                self._take_section(header)
            elif not self._fences_only and (heredoc := heredoc_at(self._lines, self._at)) is not None:
                self._add(heredoc, self._at + len(heredoc.content) + 2)
            else:
                self._words.append(line)
                self._at += 1
        return self._elements

    def _add(self, element: Element, next_line: int) -> None:
        self._elements.append(element)
        self._words = []
        self._at = next_line

    def _take_fence(self, opening: _Opening, header: str | None = None) -> None:
        start, end = self._at, self._end_of(opening, self._at)
        previous = self._elements[-1] if self._elements else None
        fence = Fence(
            line=start + 1,
            info=opening.info.strip(),
            content=tuple(_without(opening.indent, line) for line in self._lines[start + 1 : end]),
            words=_paragraph(self._words),
            header=header,
            adjoining=isinstance(previous, Fence) and not any(word.strip() for word in self._words),
        )
        self._add(fence, end + 1)

    def _end_of(self, opening: _Opening, start: int) -> int:
        for at in range(start + 1, len(self._lines)):
            if opening.closed_by(self._lines[at]):
                return at
        raise UnclosedError(f"line {start + 1}: the fence is never closed; the reply is not whole")

    def _take_section(self, path: str) -> None:
        start = self._at
        first = next((at for at in range(start + 1, len(self._lines)) if self._lines[at].strip()), len(self._lines))
        opening = _opening(self._lines[first]) if first < len(self._lines) else None
        if opening is not None:
            self._at, self._words = first, []
            self._take_fence(opening, header=path)
            return
        end = next((at for at in range(first, len(self._lines)) if _header(self._lines[at]) is not None), len(self._lines))
        section = Section(start + 1, path, _trim(self._lines[start + 1 : end]))
        self._refuse_open_fence(section, followed=end < len(self._lines))
        self._add(section, end)

    def _refuse_open_fence(self, section: Section, *, followed: bool) -> None:
        """Refuse a header inside an open fence: it may be the file's own text, so the file's end is ambiguous."""
        opening: _Opening | None = None
        for line in section.content:
            if opening is None:
                opening = _opening(line)
            elif opening.closed_by(line):
                opening = None
        if opening is not None and followed:
            raise ExtractionError(f"line {section.line}: {section.path!r} has an open fence where the next header comes")


def _header(line: str) -> str | None:
    """The path in ``--- filename: path ---``; None for any other line."""
    found = _HEADER.fullmatch(line.rstrip()) if line.startswith("---") else None
    rest = found["rest"] if found is not None else ""
    path = rest.rstrip("-")
    return path.strip() if len(rest) - len(path) >= _RULE else None


def _opening(line: str) -> _Opening | None:
    found = _OPENING.fullmatch(line) if "```" in line or "~~~" in line else None
    if found is None or (found["fence"][0] == "`" and "`" in found["info"]):
        return None
    return _Opening(found["indent"], found["fence"], found["info"])


def _without(indent: str, line: str) -> str:
    """``line`` without as much leading white space as the fence had before it."""
    space = len(line) - len(line.lstrip(" \t"))
    return line[min(space, len(indent)) :]


def _paragraph(words: Sequence[str]) -> tuple[str, ...]:
    """The last run of lines that are not blank."""
    kept: list[str] = []
    for line in reversed(words):
        if line.strip():
            kept.append(line.strip())
        elif kept:
            break
    return tuple(reversed(kept))


def _trim(lines: Sequence[str]) -> tuple[str, ...]:
    """``lines`` without the blank ones at both ends."""
    filled = [at for at, line in enumerate(lines) if line.strip()]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()
