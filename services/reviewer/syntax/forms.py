"""What a form in source is that evades a test run. Types only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from tree_sitter import Node

from gatewright.ecosystems.test_syntax.language import ParsedSource, line_of

#: Bytes of a form that identify it.
LONGEST = 2000


class Doubt(IntEnum):
    """Which honest uses a form has: none, rare ones, common ones."""

    UNMISTAKABLE = 0
    RARE = 1
    COMMON = 2


@dataclass(frozen=True)
class Evasion:
    """One place that evades: ``key`` is its text without the white space."""

    key: bytes
    line: int
    words: str
    doubt: Doubt


def form_at(node: Node, source: ParsedSource, words: str, doubt: Doubt) -> Evasion:
    """The form that ``node`` is, in ``words`` for people."""
    return Evasion(words.encode() + b"".join(source.cut(node, LONGEST).split()), line_of(node), words, doubt)
