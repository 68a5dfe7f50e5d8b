"""Text in base64 or hexadecimal digits, in pieces or in one, decoded so that the rules can scan it.

Source, YAML, JSON and dumps split one value into pieces: wrapped lines, consecutive quoted strings, ``0x41, 0x42``,
``41:42``. Linear: every pattern is possessive, and each byte is decoded once for each of the few alignments of pieces.
"""

from __future__ import annotations

import binascii
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from gatewright.secrets.rules import keys_in_der

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
