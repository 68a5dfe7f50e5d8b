"""Documents made from a JSON Schema: valid ones, and ones with something done to them."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from gatewright.contracts.schemas import written_out

Json = Any
Strategy = st.SearchStrategy[Any]

ANYTHING: Strategy = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
#: What a mutation puts in the place of something else.
STRANGERS: tuple[Json, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.0,
    -0.0,
    1.5,
    101,
    2**53,
    10**30,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "PM",
    "0",
    "null",
    "\n",
    "\x00",
    "\ud800",
    "😀" * 8,
    [],
    [None],
    [[]],
    {},
    {"": 0},
)
FOREIGN_KEYS = ("x", "", "__proto__", "__class__", "~/", "Run_id", "run_id ", "\ud800", "$ref")


@cache
def documents(name: str) -> Strategy:
    """Valid documents of the schema ``name``, as plain values."""
    return _valid(written_out(name))


def _valid(schema: dict[str, Any]) -> Strategy:
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "type" not in schema:
        return ANYTHING
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([_MAKERS[each](schema) for each in types])


def _string(schema: dict[str, Any]) -> Strategy:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if "pattern" not in schema:
        return st.text(min_size=least, max_size=most or least + 6)
    pattern = re.compile(schema["pattern"])
    return st.from_regex(pattern).map(lambda text: (text * max(least, 1))[:most]).filter(pattern.search)


def _integer(schema: dict[str, Any]) -> Strategy:
    return st.integers(schema.get("minimum"), schema.get("maximum"))


def _number(schema: dict[str, Any]) -> Strategy:
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most = schema.get("maximum", 1e9)
    bounds = {"min_value": above if least is None else least, "max_value": most, "exclude_min": above is not None}
    # JSON has no infinity.
    return st.floats(**bounds, allow_infinity=False) | st.integers(1, int(min(1000, most)))


def _array(schema: dict[str, Any]) -> Strategy:
    return st.lists(_valid(schema["items"]), min_size=schema.get("minItems", 0), max_size=2)


def _object(schema: dict[str, Any]) -> Strategy:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return st.dictionaries(st.text(max_size=5), ANYTHING if values is None else _valid(values), max_size=2)
    made = {key: _valid(value) for key, value in schema["properties"].items()}
    required = set(schema.get("required", ()))
    return st.fixed_dictionaries(
        {key: value for key, value in made.items() if key in required},
        optional={key: value for key, value in made.items() if key not in required},
    )


_MAKERS: dict[str, Callable[[dict[str, Any]], Strategy]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "array": _array,
    "object": _object,
    "boolean": lambda _: st.booleans(),
    "null": lambda _: st.none(),
}


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """Bytes of a document of ``name`` in which one or two things are not what they were."""
    document = draw(documents(name))
    for _ in range(draw(st.integers(1, 2))):
        document = _mutate(draw, copy.deepcopy(document))
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    return text.encode("utf-8", "surrogatepass")


def _mutate(draw: st.DrawFn, document: Json) -> Json:
    """Walk down a random way, then change what is there."""
    if isinstance(document, dict | list) and document and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(document) if isinstance(document, dict) else range(len(document))))
        document[key] = _mutate(draw, document[key])
        return document
    return draw(st.sampled_from(_changes(document)))(draw)


def _changes(node: Json) -> list[Callable[[st.DrawFn], Json]]:
    changes: list[Callable[[st.DrawFn], Json]] = [lambda draw: draw(st.sampled_from(STRANGERS))]
    if isinstance(node, dict):
        changes.append(lambda draw: node | {draw(st.sampled_from(FOREIGN_KEYS)): None})
        if node:
            changes.append(lambda draw: _without(node, draw(st.sampled_from(sorted(node)))))
    elif isinstance(node, list):
        changes += [lambda _: [], lambda _: node * 2, lambda _: [*node, None]]
    elif isinstance(node, str):
        changes += [lambda _: node + "\n", lambda _: node[:-1], lambda _: node.swapcase(), lambda _: node * 20]
    elif isinstance(node, int | float):
        changes += [lambda _: -node, lambda _: node + 1, lambda _: node - 1]
        if abs(node) < 1e300:  # a double holds it
            changes += [lambda _: node + 0.5, lambda _: float(node)]
    return changes


def _without(node: dict[str, Json], key: str) -> Json:
    return {each: value for each, value in node.items() if each != key}
