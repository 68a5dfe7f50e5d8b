"""A row of the table of suppressions: a pattern, its place, and its reach. Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from gatewright.ecosystems.suppressions import syntax


class Reach(Enum):
    """The reach of a suppression."""

    LINE = auto()
    #: All of the file.
    FILE = auto()
    #: All of the file if no code precedes it, else the line.
    FIRST = auto()
    #: From its place to its end marker, or to the end of the file.
    BLOCK = auto()
    #: The same when it is alone on its line, else the line.
    ALONE = auto()


class Row(NamedTuple):
    """A row: ``pattern`` silences ``tools``. It is in a comment, or with ``in_code`` in code; ``until`` ends a block."""

    tools: str
    pattern: bytes
    reach: Reach = Reach.LINE
    until: bytes = b""
    in_code: bool = False


class Language(NamedTuple):
    """A language's syntax of comments, and its rows."""

    syntax: syntax.Syntax
    rows: tuple[Row, ...]


#: The start of a comment's text: after its opening, or on a further line of it.
OPEN: Final = rb"(?:(?m:^[ \t*]*)|[#;%!]+|//+!?|/\*+!?|--+|<!--+|\{-+|\(\*+|\{#+)[ \t]*"


def leading_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """Return a row for a comment that begins with ``words``."""
    end = OPEN + b"(?i:" + until.encode() + b")" if until else b""
    return Row(tools, OPEN + b"(?i:" + words.encode() + b")", reach, end)


def any_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """Return a row for a comment that contains ``words``."""
    return Row(tools, b"(?i:" + words.encode() + b")", reach, b"(?i:" + until.encode() + b")" if until else b"")


def code_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """Return a row for code that contains ``words``."""
    return Row(tools, words.encode(), reach, until.encode(), in_code=True)
