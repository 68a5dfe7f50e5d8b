"""The difference of two canonical requests: the nearest recorded one, and the first differing place. Bounded in time and size.
Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gatewright.contracts.strict_json import pointer

#: Recorded requests that are worth comparing: those next to the place that was reached.
COMPARED = 200
#: Characters shown of each value, around the first that differs.
_SHOWN = 120
_ABSENT = object()


class RequestDifference(NamedTuple):
    """``pointer`` leads into the canonical request; the values are cut around the first character that differs."""

    pointer: str
    recorded: str
    asked: str

    @property
    def words(self) -> str:
        return f"the nearest recorded request differs at {self.pointer or '/'}: recorded {self.recorded}, asked {self.asked}"


def nearest_difference(asked: bytes, recorded: Sequence[bytes]) -> RequestDifference | None:
    """Return the first difference to the recorded request that shares most with ``asked``. None without a recording."""
    wanted = dict(_leaves(json.loads(asked)))
    best: tuple[int, dict[tuple[str | int, ...], Any]] | None = None
    for each in recorded:
        try:
            leaves = dict(_leaves(json.loads(each)))
        except ValueError:  # more than a word was removed from it
            continue
        shared = sum(1 for path, value in wanted.items() if leaves.get(path, _ABSENT) == value) - abs(len(leaves) - len(wanted))
        if best is None or shared > best[0]:
            best = (shared, leaves)
    if best is None:
        return None
    leaves = best[1]
    for path in (*wanted, *leaves):
        one, other = leaves.get(path, _ABSENT), wanted.get(path, _ABSENT)
        if one != other:
            return RequestDifference(pointer(path), *_shorten_both(one, other))
    return RequestDifference("", "the same request, fewer times", "once more")


def _leaves(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield every leaf value with its path, in the order of the document."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, dict) and node:
            pending += [((*path, name), child) for name, child in reversed(node.items())]
        elif isinstance(node, list) and node:
            pending += [((*path, index), node[index]) for index in range(len(node) - 1, -1, -1)]
        else:
            yield path, node


def _shorten_both(one: Any, other: Any) -> tuple[str, str]:
    first, second = _as_text(one), _as_text(other)
    same = 0
    for char, opposite in zip(first, second, strict=False):
        if char != opposite:
            break
        same += 1
    start = max(same - _SHOWN // 3, 0)
    return _cut(first, start), _cut(second, start)


def _as_text(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)


def _cut(text: str, start: int) -> str:
    shown = text[start : start + _SHOWN]
    return ("..." if start else "") + shown + ("..." if start + _SHOWN < len(text) else "")
