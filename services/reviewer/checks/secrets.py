"""Credentials in added lines. The shapes are those that logs are kept free of: one list for both."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from gatewright.contracts.reports import Finding
from gatewright.telemetry.redaction import RULES
from services.reviewer.subject import ChangedFile, Subject

#: Rules that look at words around a value: right for logs, where a false alarm costs nothing.
_BY_CONTEXT = frozenset({"assignment", "authorization", "bearer", "option", "url_credentials"})
_PRECISE = tuple(rule for rule in RULES if rule.name not in _BY_CONTEXT)
#: Made at random, a token of that many letters has digits; a name such as ``sk-toggleable__content`` has none.
_FEWEST_DIGITS = 2


def secrets(subject: Subject) -> Iterator[Finding]:
    """Blocking: a private key, or a token whose form says what it is. The finding never quotes it."""
    for file in subject.files:
        yield from _in_file(file)


def _in_file(file: ChangedFile) -> Iterator[Finding]:
    lines = [(number, text.decode("utf-8", "replace")) for number, text in file.added_lines]
    starts = list(accumulate((len(text) + 1 for _, text in lines), initial=0))
    added = "\n".join(text for _, text in lines)
    for rule in _PRECISE:
        for match in rule.pattern.finditer(added):
            if rule.name == "private_key" or sum(char.isdigit() for char in match[0]) >= _FEWEST_DIGITS:
                line = lines[bisect_right(starts, match.start()) - 1][0]
                yield file.finding("secret", f"looks like a {rule.name.replace('_', ' ')}", blocking=True, line=line)
