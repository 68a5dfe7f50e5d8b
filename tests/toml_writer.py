"""Writes TOML, odd TOML too: the standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.odd_values import FEW, Message, places, variants, with_odd

#: Values of TOML that JSON has no form of, or that hardly any reader expects.
_ODD_TOML = (
    *(
        "1" * 5_000,
        "0x" + "f" * 5_000,
        "nan",
        "inf",
        "1e999",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31",
        "23:59:60",
        "07:32:00",
    ),
    *("[" * 3_000 + "]" * 3_000, "{" + ".".join("a" * 99) + " = 1}", '"\\ud800"', "'''x'''", "[1, 'a', {b = 2}]"),
)
_FEW_TOML = ("1" * 5_000, "0x" + "f" * 5_000, "9999-12-31", "[" * 3_000 + "]" * 3_000)
_MARK = "odd toml stands here"


def write_toml(document: Message) -> str:
    """``document`` with a line for each of its keys. What TOML has no form of is left as it is in JSON: it cannot be read."""
    return "".join(f"{json.dumps(name)} = {_value(value)}\n" for name, value in document.items())


def odd_toml(document: Message, values: tuple[object, ...]) -> Iterator[bytes]:
    """``document`` with each of ``values``, and values that only TOML has, at each of its places."""
    for odd in variants(document, values):
        if isinstance(odd, dict):
            yield write_toml(odd).encode()
    odd_only_here = _FEW_TOML if values is FEW else _ODD_TOML
    for place in places(document):
        if place:
            whole = write_toml(with_odd(document, place, _MARK))
            yield from (whole.replace(json.dumps(_MARK), odd).encode() for odd in odd_only_here)
    yield from (
        b"\xff",
        b"a = 1\na = 2\n",
        b"a" + b".b" * 5_000 + b" = 1\n",
        b"[a" + b".b" * 5_000 + b"]\n",
        b"\0",
        b"=",
        b"[[a]]\n[a]\n",
    )


def _value(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_value(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
