"""The committed schemas with every reference written out, for tests that walk them."""

from __future__ import annotations

from functools import cache
from typing import Any

from gatewright.contracts import schemas


@cache
def inlined(name: str) -> dict[str, Any]:
    """The schema ``name`` without ``$ref``; words beside a reference win over those behind it."""
    written_out: dict[str, Any] = _inline(schemas.load(name), name)
    return written_out


def _inline(node: Any, home: str) -> Any:
    if isinstance(node, list):
        return [_inline(each, home) for each in node]
    if not isinstance(node, dict):
        return node
    beside = {key: _inline(value, home) for key, value in node.items() if key not in {"$ref", "$defs"}}
    if "$ref" not in node:
        return beside
    file, _, place = node["$ref"].partition("#")
    target_home = file.removesuffix(".json") or home
    target: Any = schemas.load(target_home)
    for step in place.split("/")[1:]:
        target = target[step]
    return _inline(target, target_home) | beside
