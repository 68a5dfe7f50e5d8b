"""Canaries: each box holds a random token that honest code never prints. Where one is found, a box was copied out.

A token has a form that anyone recognises without knowing it: ``gwcanary``, 24 random characters of base32, and 8 that are a
checksum of these. So every reader of outputs finds any token, no text is one by chance, and none is recorded anywhere.

It is found plain, in any letter case, with separators or line ends in it, with escapes (``%67``, ``\\x67``, ``\\u0067``), in
UTF-16, hexadecimal, base32 and base64 of any alignment, reversed, in ROT13, and compressed by gzip. Linear in the text.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import contextlib
import hashlib
import os
import re
import string
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

#: Where a box holds it, outside of the workspace. It is no variable: honest programs print all of their variables.
CANARY_FILE: Final = "/etc/box-canary"
_PREFIX: Final = b"gwcanary"
_RANDOM_BYTES, _CHECK_BYTES = 15, 5
_LENGTH: Final = len(_PREFIX) + (_RANDOM_BYTES + _CHECK_BYTES) * 8 // 5
_PLAIN = re.compile(rb"gwcanary[a-z2-7]{32}")  # noqa: TID251 - linear: of a fixed length
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})|\\x([0-9A-Fa-f]{2})|\\u00([0-9A-Fa-f]{2})|\\[nrt]")  # noqa: TID251 - of a fixed length
_ALNUM: Final = (string.ascii_letters + string.digits).encode()
_NO_ALNUM: Final = bytes(set(range(256)) - set(_ALNUM))
_NO_BASE64: Final = bytes(set(_NO_ALNUM) - set(b"+/-_"))
_LOWER: Final = bytes.maketrans(string.ascii_uppercase.encode(), string.ascii_lowercase.encode())
_TO_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
#: The beginning of a gzip stream, and in base64; how many are opened, how much of one is read, and what it may become.
_GZIP, _GZIP_BASE64 = b"\x1f\x8b\x08", b"H4sI"
#: Beginnings of tokens without the rest: a text with more of them hides something.
_MOST_CANDIDATES: Final = 2000
_MOST_STREAMS, _MOST_COMPRESSED, _MOST_INFLATED = 64, 1 << 18, 1 << 20


def new_canary() -> str:
    """Return a new token."""
    body = base64.b32encode(os.urandom(_RANDOM_BYTES)).lower()
    return (_PREFIX + body + _checksum(body)).decode()


def canary_spans(data: bytes) -> tuple[tuple[int, int], ...]:
    """Return where ``data`` holds a token: its spans, or all of ``data`` for one in another form than plain."""
    found = tuple(match.span() for match in _PLAIN.finditer(data) if _is_canary(match[0]))
    return found or (((0, len(data)),) if data and _holds_encoded(data, 1) else ())


def _checksum(body: bytes) -> bytes:
    return base64.b32encode(hashlib.sha256(b"gatewright canary " + body).digest()[:_CHECK_BYTES]).lower()


def _is_canary(text: bytes) -> bool:
    body = text[len(_PREFIX) : -8]
    return len(text) == _LENGTH and text.startswith(_PREFIX) and text[-8:] == _checksum(body)


_Codec = Callable[[bytes], bytes]


class _Form(NamedTuple):
    """An encoding. ``needle`` is in every encoded token, ``before`` characters after the first that is decoded.

    ``decode`` returns the token, from ``size`` characters. ``cased``: letters of both cases differ.
    """

    needle: bytes
    before: int
    size: int
    decode: _Codec
    cased: bool = False


def _bitwise(encode: _Codec, decode: _Codec, bits: int, *, wide: bool = False) -> list[_Form]:
    """Return the forms of an encoding of ``bits`` a character, by alignment; ``wide``: of the token in UTF-16."""
    unit = 2 if wide else 1
    prefix = _PREFIX.decode().encode("utf-16-le") if wide else _PREFIX
    block = {4: 1, 5: 5, 6: 3}[bits]

    def form(shift: int) -> _Form:
        first = -(-shift * 8 // bits)
        needle = encode(bytes(shift) + prefix + bytes(block))[first : (shift + len(prefix)) * 8 // bits]
        group = block * 8 // bits
        size = -(-(shift + _LENGTH * unit) * 8 // bits // group) * group

        def token(window: bytes) -> bytes:
            return decode(window.ljust(size, b"A")[:size])[shift : shift + _LENGTH * unit : unit]

        return _Form(needle, first, size, token, cased=bits == 6)

    return [form(shift) for shift in range(block)]


def _rot13(text: bytes) -> bytes:
    return codecs.encode(text.decode("latin-1"), "rot13").encode("latin-1")


_BACKWARDS: Final = _LENGTH - len(_PREFIX)
_FORMS: Final = (
    _Form(_PREFIX, 0, _LENGTH, bytes),
    _Form(_rot13(_PREFIX), 0, _LENGTH, _rot13),
    _Form(_PREFIX[::-1], _BACKWARDS, _LENGTH, lambda text: text[::-1]),
    _Form(_rot13(_PREFIX)[::-1], _BACKWARDS, _LENGTH, lambda text: _rot13(text)[::-1]),
    *_bitwise(binascii.hexlify, binascii.unhexlify, 4),
    *_bitwise(lambda data: base64.b32encode(data).lower(), lambda text: base64.b32decode(text.upper()), 5),
    *_bitwise(base64.b64encode, base64.b64decode, 6),
    *_bitwise(base64.b64encode, base64.b64decode, 6, wide=True),
)


def _holds_encoded(data: bytes, depth: int) -> bool:
    texts = [data]
    if b"%" in data or b"\\" in data:
        texts.append(_ESCAPE.sub(lambda match: binascii.unhexlify(b"".join(group or b"" for group in match.groups())), data))
    for text in texts:
        cased = text.translate(None, _NO_ALNUM)
        lower = cased.translate(_LOWER)
        # As lists of numbers have them: 0x67, 0x77.
        if any(_holds_form(cased if form.cased else lower, form) for form in _FORMS) or (
            b"0x" in lower and _holds_form(lower.replace(b"0x", b""), _FORMS[4])
        ):
            return True
    return depth > 0 and any(canary_spans(text) for text in _inflated_texts(data))


def _holds_form(text: bytes, form: _Form) -> bool:
    at = text.find(form.needle)
    for _ in range(_MOST_CANDIDATES):
        if at < 0:
            return False
        # Characters before it may be missing: they belong to other bytes.
        begin = at - form.before
        window = b"a" * -begin + text[max(begin, 0) : begin + form.size]
        with contextlib.suppress(ValueError):  # other characters than the encoding has
            if _is_canary(form.decode(window)):
                return True
        at = text.find(form.needle, at + 1)
    return True


def _inflated_texts(data: bytes) -> Iterator[bytes]:
    """Yield what the first gzip streams become, plain ones and those in base64."""
    joined = data.translate(_TO_STANDARD, _NO_BASE64)
    for source, mark, is_base64 in ((data, _GZIP, False), (joined, _GZIP_BASE64, True)):
        at = source.find(mark)
        for _ in range(_MOST_STREAMS):
            if at < 0:
                break
            part = source[at : at + _MOST_COMPRESSED]
            packed = binascii.a2b_base64(part[: len(part) // 4 * 4] + b"A" * 4) if is_base64 else part
            with contextlib.suppress(zlib.error):  # it only begins like one, or breaks off
                yield zlib.decompressobj(wbits=31).decompress(packed, _MOST_INFLATED)
            at = source.find(mark, at + 1)
