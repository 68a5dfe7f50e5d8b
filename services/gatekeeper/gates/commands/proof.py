"""Strict acceptance: is a command worth anything as a test? Only what its words tell; not whether a test is good."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from gatewright.services.gatekeeper.gates.commands.words import CommandWords
from gatewright.services.gatekeeper.policies.commands import CommandClass, CommandRule

#: A count, or an escape.
_COUNT = re.compile(r"\\?\{[0-9,]*\\?\}|\\.")  # noqa: TID251 - linear: anchored, and a brace ends each try
#: What stands before the first character of a bracket expression that may end it.
_BRACKET = re.compile(r"\[\^?\]?")  # noqa: TID251 - linear: of a fixed length
#: What makes the piece before it optional, in both of grep's dialects.
_OPTIONAL = re.compile(r"\\?[*?{]")  # noqa: TID251 - linear: of a fixed length


def why_nothing(rule: CommandRule, words: CommandWords) -> str:
    """Why the command would succeed whatever the candidate is like; empty when that cannot be told."""
    proof = rule.proof
    if proof.never:
        return "it does nothing"
    if voided := sorted(words.options.intersection(proof.without)):
        return f"with {', '.join(voided)} it may succeed whatever it finds"
    if proof.needs and words.options.isdisjoint(proof.needs):
        return f"without {' or '.join(proof.needs)} it changes files instead of checking them"
    if proof.operands == "some" and not words.operands:
        return "without an operand it may find nothing to run"
    if proof.operands == "none" and words.operands:
        return f"the filter {words.operands[0]!r} may select nothing"
    if strange := [word for word in words.rest if word.partition("=")[0] not in proof.rest]:
        return f"with {strange[0]!r} after -- it may run nothing"
    if rule.first == "text" and any(_matches_anything(text) for text in words.texts):
        return "its pattern matches anything"
    if rule.kind is CommandClass.READ_ONLY and words.places and all(posixpath.normpath(p) == "." for p in words.places):
        return "the workspace itself is always there" if rule.first == "path" else ""
    return ""


def _matches_anything(pattern: str) -> bool:
    """Whether no letter or digit of ``pattern`` must be there. Not by trying it: hostile patterns take forever."""
    if re.search(r"\)\\?[*?{]", pattern):  # noqa: TID251 - linear: of a fixed length
        return True
    return not any(piece.isalnum() and not _OPTIONAL.match(pattern, end) for piece, end in _pieces(pattern))


def _pieces(pattern: str) -> Iterator[tuple[str, int]]:
    """A pattern piece by piece, each with its end: a count, an escape, a bracket expression, or one character."""
    at, last_closing = 0, pattern.rfind("]")
    while at < len(pattern):
        found, end = _COUNT.match(pattern, at), at + 1
        bracket = _BRACKET.match(pattern, at)
        if found is not None:
            end = found.end()
        elif bracket is not None and bracket.end() <= last_closing:  # else it is never closed: a character like another
            end = pattern.index("]", bracket.end()) + 1
        yield pattern[at:end], end
        at = end
