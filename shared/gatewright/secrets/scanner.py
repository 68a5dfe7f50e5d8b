"""Detection of secrets in bytes: precise rules, values after revealing names, and the catalogue of a scanner library.

It reports a secret's place and rule, never its value. It uses no network and validates nothing. A marker in the text
("ignore this line") has no effect, because its author may be the attacker.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple, Protocol

from gatewright.canary import canary_spans
from gatewright.secrets.encoded import decoded_texts
from gatewright.secrets.named_values import find_named_values
from gatewright.secrets.rules import CANARY, GLANCES, RULES_BY_GLANCE, SecretRule, keys_in_der
from gatewright.secrets.values import FEWEST_DIGITS, is_placeholder

#: Key material soon after the first line; a program that merely names the line has none.
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/=]{24}")  # noqa: TID251 - linear: each try ends where the next one begins
_FIRST_LINE = re.compile(r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")  # noqa: TID251 - linear: each try ends where the next one begins
_LAST_LINE = re.compile(r"-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----")  # noqa: TID251 - linear: each try ends where the next one begins
_SOON = 450
#: Maximum depth of nested encodings, and the separator of decoded texts.
_DEEPEST = 2
_APART = b"\n\n"
#: A JSON web token has three parts; two dots less is a source map or a JSON value in base64.
_DOTS_OF_A_JWT = 2


class Hit(NamedTuple):
    """Bytes ``start`` to ``end`` of what was looked at hold, or are the encoded form of, a secret that ``rule`` knows."""

    rule: str
    start: int
    end: int


class Engine(Protocol):
    """A scanner library. ``name`` with its version is part of the evidence."""

    @property
    def name(self) -> str: ...

    def find(self, data: bytes) -> Iterator[Hit]: ...

    def prepare(self) -> None: ...


class SecretScanner:
    """Thread-safe; looking is pure computation and may take a while for megabytes: call it in a thread."""

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine

    @property
    def name(self) -> str:
        """Return the scanner's name for the evidence: ``patterns`` or ``patterns+kingfisher 1.5.0``."""
        return "patterns" if self._engine is None else f"patterns+{self._engine.name}"

    def find(self, data: bytes) -> tuple[Hit, ...]:
        """Return every secret in ``data`` by its form, in order, without overlaps.

        Waits for the library's catalogue while it is loading. Raises ConfigurationError if it cannot be loaded, DeniedError
        (``secret_scan_failed``) if the library cannot scan ``data``: unscanned is not clean.
        """
        return disjoint(self._hits(data, _DEEPEST))

    def _hits(self, data: bytes, depth: int) -> list[Hit]:
        # Latin-1: one character a byte, so that offsets are the same and no content is beyond it.
        text = data.decode("latin-1")
        hits = [hit for rule in _rules_for(data) for hit in _by_rule(rule, text)]
        hits += (Hit("private_key", start, end) for start, end in keys_in_der(data))
        hits += (Hit(*found) for found in find_named_values(data))
        hits += (Hit(CANARY, *span) for span in canary_spans(data))
        if self._engine is not None:
            hits += self._engine.find(data)
        return [*hits, *self._scan_decoded(data, depth)] if depth else hits

    def _scan_decoded(self, data: bytes, depth: int) -> Iterator[Hit]:
        """Yield the findings in the decoded texts, scanned together, at their encoded places."""
        texts = list(decoded_texts(data))
        if not texts:
            return
        starts = list(accumulate((len(each.text) + len(_APART) for each in texts), initial=0))
        for hit in self._hits(_APART.join(each.text for each in texts), depth - 1):
            for number in range(bisect_right(starts, hit.start) - 1, bisect_left(starts, hit.end)):
                each, begin = texts[number], starts[number]
                start, end = max(hit.start - begin, 0), min(hit.end - begin, len(each.text))
                if start < end:
                    yield Hit(hit.rule, *each.span(start, end))

    def prepare(self) -> None:
        """Load what looking needs, so that no task waits for it later. Raises ConfigurationError when it cannot be had."""
        if self._engine is not None:
            self._engine.prepare()


def _rules_for(data: bytes) -> Iterator[SecretRule]:
    """Yield the precise rules that may match in ``data``, by a quick check."""
    for glance, rules in RULES_BY_GLANCE:
        if glance.is_in(data):
            yield from (rule for rule in rules if not rule.glance or GLANCES[rule.name].is_in(data))


def _by_rule(rule: SecretRule, text: str) -> Iterator[Hit]:
    if not any(anchor in text for anchor in rule.anchors):
        return
    if rule.name == "private_key":
        yield from _private_keys(rule.name, text)
        return
    for match in rule.pattern.finditer(text):
        if _is_real(rule.name, match[0]):
            yield Hit(rule.name, match.start(), match.end())


def _private_keys(name: str, text: str) -> Iterator[Hit]:
    """Yield keys from a first line with key material to its last line; a first line without material hides no later key."""
    done = 0
    for first in _FIRST_LINE.finditer(text):
        if first.start() < done or not _KEY_MATERIAL.search(text, first.end(), first.end() + _SOON):
            continue
        last = _LAST_LINE.search(text, first.end())
        done = last.end() if last is not None else len(text)
        yield Hit(name, first.start(), done)


def _is_real(name: str, value: str) -> bool:
    if name == "jwt" and value.count(".") < _DOTS_OF_A_JWT:
        return False
    if name == "google_secret":  # its prefix is unique
        return not is_placeholder(value)
    return sum(char.isdigit() for char in value) >= FEWEST_DIGITS and not is_placeholder(value)


def disjoint(hits: list[Hit]) -> tuple[Hit, ...]:
    """The hits in order, overlapping ones made one, under the rule of the one that begins first (the longer, where two do).

    A canary among them gives its rule.
    """
    merged: list[Hit] = []
    for hit in sorted(hits, key=lambda hit: (hit.start, -hit.end)):
        if merged and hit.start < merged[-1].end:
            rule = CANARY if hit.rule == CANARY else merged[-1].rule
            merged[-1] = Hit(rule, merged[-1].start, max(merged[-1].end, hit.end))
        else:
            merged.append(hit)
    return tuple(merged)
