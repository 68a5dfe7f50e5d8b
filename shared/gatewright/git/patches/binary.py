"""The bodies of binary files in a patch: base 85 over zlib, as ``git diff --binary`` writes them.

The reader splits them. git inflates both parts and checks sizes and ids; ``decode`` is for what git does not look at.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from typing import Final, Literal

from gatewright.git.patches.cursor import Cursor
from gatewright.git.patches.faults import REMAKE, SEND_WHOLE, patch_fault, quote_path
from gatewright.git.patches.files import BinaryBody, BinaryPart

BINARY: Final = b"GIT binary patch"
_PART = re.compile(rb"(literal|delta) (0|[1-9][0-9]{0,18})")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
#: A line: its length, ``A`` to ``Z`` for 1 to 26 bytes and ``a`` to ``z`` for 27 to 52, then five characters for four bytes.
_LENGTHS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ALPHABET: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def read_binary(cursor: Cursor, path: bytes) -> BinaryBody:
    """Return the body that begins at the cursor's line, and move the cursor behind it."""
    first = cursor.number
    cursor.advance()
    forward = _read_part(cursor, path)
    if forward is None:
        raise patch_fault(cursor.number, f"the content of the binary file {quote_path(path)} is missing", SEND_WHOLE, path)
    lines = cursor.number - first - 2  # without the header and the empty line
    reverse = _read_part(cursor, path)
    if reverse is not None:
        lines = cursor.number - first - 3
    return BinaryBody(forward, reverse, lines)


def decode(data: bytes, part: BinaryPart, most: int) -> bytes | None:
    """The inflated bytes of ``part`` of the patch ``data``; None where it is corrupt, or ``most`` bytes do not hold it."""
    if part.size > most:
        return None
    try:
        packed = b"".join(_decoded_lines(data[part.at : part.end]))
        engine = zlib.decompressobj()
        content = engine.decompress(packed, part.size + 1)
    except (ValueError, zlib.error):
        return None
    return content if len(content) == part.size and engine.eof else None


def apply_delta(source: bytes, delta: bytes, most: int) -> bytes | None:
    """Return the result of applying ``delta`` to ``source`` (gitformat-pack, "Deltified representation").

    None if it does not fit, or the result has more than ``most`` bytes.
    """
    at, before = _read_size(delta, 0)
    at, after = _read_size(delta, at)
    if at < 0 or before != len(source) or after > most:
        return None
    target = bytearray()
    while 0 <= at < len(delta) and len(target) <= after:
        order = delta[at]
        if order & 0x80:
            at, offset, size = _read_copy(delta, at)
            if offset + size > len(source):
                return None
            target += source[offset : offset + size]
        else:
            target += delta[at + 1 : at + 1 + order]
            at += 1 + order if order else -len(delta) - 1
    return bytes(target) if at == len(delta) and len(target) == after else None


def _read_size(delta: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the least first, and where the next one begins; -1 for none."""
    number = 0
    for shift in range(0, 63, 7):
        if not 0 <= at < len(delta):
            return -1, 0
        byte = delta[at]
        number |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            return at, number
    return -1, 0


def _read_copy(delta: bytes, at: int) -> tuple[int, int, int]:
    """Return the position of the next instruction, and the offset and size of the source bytes that this one copies."""
    order, numbers = delta[at], [0, 0]
    at += 1
    for bit in range(7):
        if order >> bit & 1:
            if at >= len(delta):
                return -1, 0, 0
            which, place = divmod(bit, 4)
            numbers[which] |= delta[at] << (8 * place)
            at += 1
    return at, numbers[0], numbers[1] or 0x10000


def _read_part(cursor: Cursor, path: bytes) -> BinaryPart | None:
    found = _PART.fullmatch(cursor.line or b"")
    if found is None:
        return None
    cursor.advance()
    start = cursor.at
    while cursor.line:
        if not _is_data(cursor.line):
            cause = f"the line does not hold content of the binary file {quote_path(path)}"
            raise patch_fault(cursor.number, cause, REMAKE, path)
        cursor.advance()
    end = cursor.at
    if cursor.line is None or not cursor.complete or end == start:
        raise patch_fault(cursor.number, f"the content of the binary file {quote_path(path)} is cut off", SEND_WHOLE, path)
    cursor.advance()
    method: Literal["literal", "delta"] = "literal" if found[1] == b"literal" else "delta"
    return BinaryPart(method, int(found[2]), start, end)


def _is_data(line: bytes) -> bool:
    length = _LENGTHS.find(line[:1]) + 1
    return length > 0 and len(line) == 1 + (length + 3) // 4 * 5 and not line[1:].translate(None, _ALPHABET)


def _decoded_lines(lines: bytes) -> Iterator[bytes]:
    for line in lines.split(b"\n"):
        if line:
            yield base64.b85decode(line[1:])[: _LENGTHS.index(line[:1]) + 1]
