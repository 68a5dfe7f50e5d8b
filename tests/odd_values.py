"""Documents with an odd value at each of their places, for what reads foreign JSON."""

from __future__ import annotations

import copy
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
