"""Documents with an odd value at each of their places, for what reads foreign JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.series import lengths

Message = dict[str, Any]
Place = tuple[str | int, ...]

#: Stands for a field that is left out.
GONE = object()
ODD: tuple[object, ...] = (
    *(GONE, None, True, False, 0, -1, 1.5, 1 << 70, "", "x", "\x00", "\ud800", "\u202e", "a" * 70_000),
    *([], [[]], ["x"], [None], {}, {"x": {}}, {"": ""}, [{}] * 100),
)
FEW: tuple[object, ...] = (GONE, None, "x", 5, [], {})
few_or_all = pytest.mark.parametrize("values", lengths((FEW,), (ODD,)), ids=["few", "all"])


#: Bytes that are no document, whichever kind is asked for.
NO_DOCUMENTS = (
    *(
        b"",
        b"{",
        b"\xff",
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"NaN",
        b"1" * 5_000,
        b"null",
        b"\0",
    ),
    b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
)
#: Values that no honest writer of JSON makes.
_ODD_BYTES = (b'"\xff"', b"[" * 3_000 + b"]" * 3_000, b"1" * 5_000, b"1e999", b"NaN", b'"\\ud800"', b"-0", b'{"a": 1, "a": 2}')
_MARK = "odd bytes stand here"


def places(value: object, place: Place = ()) -> Iterator[Place]:
    """Every place in a document, the document itself first."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in items:
        yield from places(child, (*place, name))


def with_odd(document: Message, place: Place, odd: object) -> Any:
    """``document`` with ``odd`` at ``place``."""
    if not place:
        return {} if odd is GONE else odd
    changed = copy.deepcopy(document)
    parent: Any = changed
    for name in place[:-1]:
        parent = parent[name]
    if odd is GONE:
        del parent[place[-1]]
    else:
        parent[place[-1]] = odd
    return changed


def variants(document: Message, values: tuple[object, ...]) -> Iterator[Any]:
    return (with_odd(document, place, odd) for place in places(document) for odd in values)


def odd_bytes(document: Message, values: tuple[object, ...]) -> Iterator[bytes]:
    """``document`` as JSON with each of ``values`` at each of its places, and with bytes there that are hardly JSON."""
    yield from NO_DOCUMENTS
    for odd in variants(document, values):
        yield json.dumps(odd).encode()
    mark = json.dumps(_MARK).encode()
    for place in places(document):
        whole = json.dumps(with_odd(document, place, _MARK)).encode()
        yield from (whole.replace(mark, odd) for odd in _ODD_BYTES)


_ODD_TEXT = (
    *(b"", b"\xff", b"\0", b"[", b"[]", b"[[[[", b"= x", b": x", b"  x", b"\tx", b"'", b'"', b"{" * 999, b"$(" * 999, b"%(a)s"),
)
_FEW_TEXT = (b"\xff", b"[", b"  x", b"'", b"{" * 999)


def odd_lines(text: bytes, values: tuple[object, ...]) -> Iterator[bytes]:
    """A file of lines with an odd text in place of each of its lines, after it and before it."""
    lines = text.split(b"\n")
    for at, line in enumerate(lines):
        for odd in _FEW_TEXT if values is FEW else _ODD_TEXT:
            for changed in (odd, line + odd, odd + line):
                yield b"\n".join((*lines[:at], changed, *lines[at + 1 :]))
