"""What a row of the table of suppressions is: a pattern, where it stands, and how far it reaches. Pure."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from gatewright.ecosystems.suppressions import syntax


class Reach(Enum):
    """How far a suppression goes."""

    LINE = auto()
    #: All of the file.
    FILE = auto()
    #: All of the file when no code stands before it, else the line.
    FIRST = auto()
    #: From its place to what ends it, or to the end of the file.
    BLOCK = auto()
    #: The same when it is alone on its line, else the line.
    ALONE = auto()


class Row(NamedTuple):
    """``pattern`` silences ``tools``. It stands in a comment, or with ``in_code`` in code; ``until`` ends a block."""

    tools: str
    pattern: bytes
    reach: Reach = Reach.LINE
    until: bytes = b""
    in_code: bool = False


class Language(NamedTuple):
    """How a language writes comments, and its rows."""

    syntax: syntax.Syntax
    rows: tuple[Row, ...]


#: Where the words of a comment begin: behind what opens it, or on a further line of it.
OPEN: Final = rb"(?:(?m:^[ \t*]*)|[#;%!]+|//+!?|/\*+!?|--+|<!--+|\{-+|\(\*+|\{#+)[ \t]*"


def leading_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """A comment that begins with ``words``."""
    end = OPEN + b"(?i:" + until.encode() + b")" if until else b""
    return Row(tools, OPEN + b"(?i:" + words.encode() + b")", reach, end)


def any_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """A comment that has ``words`` anywhere."""
    return Row(tools, b"(?i:" + words.encode() + b")", reach, b"(?i:" + until.encode() + b")" if until else b"")


def code_words(tools: str, words: str, reach: Reach = Reach.LINE, until: str = "") -> Row:
    """Code that has ``words``."""
    return Row(tools, words.encode(), reach, until.encode(), in_code=True)
