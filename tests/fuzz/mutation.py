"""Changes to valid inputs that keep enough of their form to get past the first check."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import msgspec

#: Values that a field may be exchanged for.
_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**53,
    2**64,
    1e308,
    "",
    " ",
    ".",
    "..",
    "/",
    "~",
    "*",
    "src",
    "src/../..",
    "/etc",
    ".git/hooks",
    "-rf",
    "\u202e",
    "\x00",
    "a" * 5000,
    "allow",
    "danger-full-access",
    "read-only",
    "rm -rf /",
    "sh -c id",
    "ext::sh",
    "refs/heads/main",
    [],
    {},
    ["src"],
    ["..", "src"],
)


def mutate(chance: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """``data`` after up to six small changes: bytes flipped, cut, doubled or moved, words put in."""
    for _ in range(chance.randint(0, 6)):
        at, other = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        match chance.randint(0, 5):
            case 0 if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ (1 << chance.randint(0, 7))]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[other:]
            case 2:
                data = data[:other] + data[at:other] + data[other:]
            case 3:
                data = data[:at] + chance.choice(words) + data[at:]
            case 4:
                old = chance.choice(words)
                data = data.replace(old, chance.choice(words), 1)
            case _:
                lines = data.splitlines(keepends=True)
                chance.shuffle(lines)
                data = b"".join(lines)
    return data


def mutate_json(chance: random.Random, value: Any) -> bytes:
    """A document with up to three fields exchanged, removed or added."""
    changed = copy.deepcopy(value)
    for _ in range(chance.randint(0, 3)):
        place, key = _somewhere(chance, changed)
        if place is None:
            continue
        other = copy.deepcopy(chance.choice(_VALUES))
        match chance.randint(0, 3):
            case 0 if isinstance(place, dict):
                del place[key]
            case 1 if isinstance(place, dict):
                place[chance.choice(("extra", "", "__proto__", "scope", "tool_permissions"))] = copy.deepcopy(
                    chance.choice(_VALUES)
                )
            case _:
                place[key] = other
    return msgspec.json.encode(changed)


def _somewhere(chance: random.Random, value: Any) -> tuple[Any, Any]:
    """A container in ``value`` and one of its keys."""
    places: list[tuple[Any, Any]] = []
    pending = [value]
    while pending:
        each = pending.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        for key in keys:
            places.append((each, key))
            pending.append(each[key])
    return chance.choice(places) if places else (None, None)
