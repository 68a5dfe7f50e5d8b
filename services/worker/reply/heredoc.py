"""Shell heredocs that write a whole file: ``cat > path << 'EOF'``. Nothing is run; other shell words are left alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gatewright.errors import ExtractionError
from gatewright.patterns import TextPattern

_WORD = r"""(?:"[^"]+"|'[^']+'|[^\s<>|&;()"'`]+)"""
_DELIMITER = r"""(?:'\w+'|"\w+"|\\?\w+)"""
_CAT = TextPattern(
    rf"[ \t]*(?:\$[ \t]+)?(?:mkdir[ \t]+-p[ \t]+{_WORD}[ \t]*(?:&&|;)[ \t]*)?cat[ \t]*"
    rf"(?:>[ \t]*(?P<to>{_WORD})[ \t]*<<(?P<dash>-?)[ \t]*(?P<end>{_DELIMITER})"
    rf"|<<(?P<dash2>-?)[ \t]*(?P<end2>{_DELIMITER})[ \t]*>[ \t]*(?P<to2>{_WORD}))[ \t]*"
)
_ANY = re.compile(rf"(?<!<)<<(?P<dash>-?)[ \t]*(?P<end>{_DELIMITER})")  # noqa: TID251 - linear: each try ends where the next one begins
_WRITES = TextPattern(r">|\btee\b")
_MOVES = TextPattern(r"(?:^|[;&|({])[ \t]*(?:\$[ \t]+)?(?:cd|pushd)\b")
#: What a shell would replace inside a heredoc whose delimiter is not quoted.
_EXPANDED = frozenset("$`\\")
_EXPANDED_PATH = frozenset("$~*?[{")
#: Longer lines are no command that a model writes by hand.
_MAX_LINE = 1000


@dataclass(frozen=True, slots=True)
class Heredoc:
    """A file written by ``cat``; ``line`` is the number of the command's line, ``content`` the lines of the file."""

    line: int
    path: str
    content: tuple[str, ...]


def heredoc_at(lines: Sequence[str], at: int, first_line: int = 1) -> Heredoc | None:
    """The heredoc that begins on line ``at`` (counted from 0), or None; ``first_line`` is the number of ``lines[0]``.

    Raises ExtractionError when its end is missing, or when a shell would change its path or its text.
    """
    found = _CAT.fullmatch(lines[at]) if len(lines[at]) <= _MAX_LINE and "<<" in lines[at] else None
    if found is None:
        return None
    delimiter = found.get("end") or found["end2"]
    number = first_line + at
    body = _body(lines, at, number, delimiter, tabs=bool(found.get("dash") or found.get("dash2")))
    if _bare(delimiter) == delimiter and any(not _EXPANDED.isdisjoint(line) for line in body):
        raise ExtractionError(f"line {number}: a shell would change this text; quote the delimiter: << '{delimiter}'")
    path = _bare(found.get("to") or found["to2"])
    if not _EXPANDED_PATH.isdisjoint(path):
        raise ExtractionError(f"line {number}: a shell would expand {path!r}; write the path itself")
    return Heredoc(number, path, body)


def heredocs_in(lines: Sequence[str], first_line: int) -> tuple[Heredoc, ...]:
    """All files that a block of shell commands writes by heredoc; ``first_line`` is the number of ``lines[0]`` in the reply.

    Raises ExtractionError for a heredoc that goes to a file in another way, or after a change of directory.
    """
    found: list[Heredoc] = []
    at, moved = 0, False
    while at < len(lines):
        line = lines[at]
        heredoc = heredoc_at(lines, at, first_line)
        other = _ANY.search(line) if heredoc is None and len(line) <= _MAX_LINE else None
        moved = moved or (("cd" in line or "pushd" in line) and _MOVES.is_in(line))
        if heredoc is not None:
            if moved:
                raise ExtractionError(f"line {heredoc.line}: {heredoc.path!r} follows a change of directory")
            found.append(heredoc)
            at += len(heredoc.content) + 1
        elif other is not None:
            if _WRITES.is_in(line):
                raise ExtractionError(f"line {first_line + at}: a whole file is written as: cat > path << 'EOF'")
            at += len(_body(lines, at, first_line + at, other["end"], tabs=bool(other["dash"]))) + 1
        at += 1
    return tuple(found)


def _body(lines: Sequence[str], at: int, number: int, delimiter: str, *, tabs: bool) -> tuple[str, ...]:
    end = _bare(delimiter)
    body: list[str] = []
    for below in range(at + 1, len(lines)):
        text = lines[below].lstrip("\t") if tabs else lines[below]
        if text == end:
            return tuple(body)
        body.append(text)
    raise ExtractionError(f"line {number}: the heredoc never reaches its end {end!r}")


def _bare(word: str) -> str:
    return word[1:-1] if word[0] in "\"'" else word.removeprefix("\\")
