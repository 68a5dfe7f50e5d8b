"""Detection of secrets in bytes: precise rules, values after revealing names, and the catalogue of a scanner library.

It reports a secret's place and rule, never its value. It uses no network and validates nothing. A marker in the text
("ignore this line") has no effect, because its author may be the attacker.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

from gatewright.canary import canary_spans
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


# Text in base64 or hexadecimal digits, in pieces or in one, decoded so that the rules can scan it.
# Source, YAML, JSON and dumps split one value into pieces: wrapped lines, consecutive quoted strings, ``0x41, 0x42``,
# ``41:42``. Linear: every pattern is possessive, and each byte is decoded once for each of the few alignments of pieces.

#: Shorter ones are no credential.
_SHORTEST = 16
#: Between two pieces of base64: at least a line end, a quote, a comma or an operator, and the characters around these.
_GAP = rb"""[ \t]*+(?:\\[nrt]|["'`,+\\\r\n])(?:\\[nrt]|[\s"'`,;|>#*.()\[\]{}\\$-]|[+/]{1,3}+(?=[\s"'])){0,80}+"""
_TOKEN = rb"[A-Za-z0-9+/][A-Za-z0-9+/_-]{3,}+"
_BASE64 = re.compile(rb"%s(?:%s%s)*+" % (_TOKEN, _GAP, _TOKEN))  # noqa: TID251 - linear: every repetition is possessive or counted
_PIECE = re.compile(rb"(%s)(?:%s)?+" % (_TOKEN, _GAP))  # noqa: TID251 - linear: every repetition is possessive or counted
#: Fifteen readable bytes in base64, by the bits of their characters; hardly any other text matches.
_READABLE_BASE64 = re.compile(rb"(?:[I-Za-f][C-HS-Xi-ny-z0-3][AEIMQUYcgkosw048BFJNRVZdhlptx159][A-Za-z0-9+/]){5}")  # noqa: TID251 - linear: every repetition is possessive or counted
#: Byte sequences near the start of unarmoured keys, in base64: RSA (PKCS #8 and #1), elliptic curves, Ed25519 and similar.
_KEYS_IN_BASE64 = (b"ANBgkqhkiG9w0BAQEFAAS", b"IBAAKC", b"MGByqGSM49AgEG", b"MC4CAQAwBQYDK2V")
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
#: ``%%`` is no format: this one is put together by hand.
_PREFIX = rb"""(?:0[xX]|\\x|\\u00|%|&?\#x)?+"""
_BETWEEN = rb"""(?:\\[nrt]|[\s:,;"'`+()\[\]{}]|-(?!-)|\\(?=[\r\n"'])){0,80}+"""
_PAIR = rb"(?>" + _PREFIX + rb"[0-9A-Fa-f]{2}" + _BETWEEN + rb")"
_HEX = re.compile(rb"[0-9A-Fa-f]{2}" + _BETWEEN + _PAIR + rb"{15,}+[0-9A-Fa-f]?")  # noqa: TID251 - linear: every repetition is possessive or counted
_DIGITS = re.compile(_PREFIX + rb"([0-9A-Fa-f]{1,2})")  # noqa: TID251 - linear: every repetition is possessive or counted
_PREFIXED = re.compile(rb"[xXu%#]")  # noqa: TID251 - linear: every repetition is possessive or counted
_SEPARATORS = b" \t\n\r\v\f:,;\"'`+()[]{}-\\nrt"
_READABLE = re.compile(rb"[\t\n\r -~]{%d,}+" % _SHORTEST)  # noqa: TID251 - linear: every repetition is possessive or counted


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded ``text``; ``places`` are the offsets of its encoded characters in the scanned data.

    ``step`` characters are ``per`` bytes: byte ``n`` of the text begins in the character ``first + n * step // per``.
    """

    text: bytes
    places: Sequence[int]
    first: int
    step: int
    per: int

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the scanned data of the bytes ``start`` to ``end`` of the text."""
        last = len(self.places) - 1
        begin = self.first + start * self.step // self.per
        stop = self.first + -(-end * self.step // self.per) - 1
        return self.places[min(begin, last)], self.places[min(stop, last)] + 1


def decoded_texts(data: bytes) -> Iterator[Decoded]:
    """Yield every readable text of some length that ``data`` contains in base64 or hexadecimal digits."""
    for found in _BASE64.finditer(data):
        if found.end() - found.start() >= _SHORTEST * 4 // 3:
            yield from _from_base64(data, found.start(), found.end())
    for found in _HEX.finditer(data):
        yield from _from_hex(data, found.start(), found.end())


def _from_base64(data: bytes, start: int, end: int) -> Iterator[Decoded]:
    pieces = [found.span(1) for found in _PIECE.finditer(data, start, end)]
    joined = b"".join(data[begin:stop] for begin, stop in pieces).translate(_TO_STANDARD)
    if _READABLE_BASE64.search(joined) is None and not any(mark in joined for mark in _KEYS_IN_BASE64):
        return
    places = _Places(pieces)
    for shift in range(4):  # the match may start with a preceding word
        whole = joined[shift : shift + (len(joined) - shift) // 4 * 4]
        # The remainder of a last group of four is one or two bytes.
        rest = joined[shift + len(whole) :]
        content = binascii.a2b_base64(whole + (rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b""))
        for begin, stop in _texts_in(content):
            yield Decoded(content[begin:stop], places, shift + begin * 4 // 3, 4, 3)


def _from_hex(data: bytes, start: int, end: int) -> Iterator[Decoded]:
    region = data[start:end]
    # Most are digits and separators only; a prefix has digits that do not belong to the value.
    digits = b"".join(_DIGITS.findall(region)) if _PREFIXED.search(region) else region.translate(None, _SEPARATORS)
    places: list[int] = []  # found once for all texts, and only where there is one
    for shift in range(2):
        content = binascii.unhexlify(digits[shift : shift + (len(digits) - shift) // 2 * 2])
        for begin, stop in _texts_in(content):
            places = places or [
                at for found in _DIGITS.finditer(data, start, end) for at in range(found.start(1), found.end(1))
            ]
            yield Decoded(content[begin:stop], places, shift + begin * 2, 2, 1)


def _texts_in(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the readable spans of ``content``, and those of unreadable keys. Of each kind, none overlap."""
    for found in _READABLE.finditer(content):
        yield found.span()
    yield from keys_in_der(content)


class _Places(Sequence[int]):
    """The offsets of the characters of pieces that were joined."""

    def __init__(self, pieces: Sequence[tuple[int, int]]) -> None:
        self._pieces = pieces
        self._ends = list(accumulate(stop - begin for begin, stop in pieces))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, at: int) -> int:  # type: ignore[override]  # slices are not asked for
        piece = bisect_right(self._ends, at)
        _begin, stop = self._pieces[piece]
        return stop - (self._ends[piece] - at)
