"""The payloads: our JSON Schemas as components of one document, and payloads without a schema of ours.

AsyncAPI's own schemas are JSON Schema draft 07, ours are draft 2020-12, and only use what both have: ``$defs`` become
separate components, and keywords beside a ``$ref``, which draft 07 ignores, are put around it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gatewright.contracts import schemas
from gatewright.contracts.schemas import load
from gatewright.resources import schema_directory

Json = dict[str, Any]

#: Keywords of the file, not of the schema.
_OF_THE_FILE = frozenset({"$schema", "$id", "$defs"})

#: Payloads that are not our documents: name -> content type and schema.
FOREIGN: Mapping[str, tuple[str, Json]] = {
    "cloud_event": (
        "application/cloudevents+json",
        {
            "title": "CloudEvent",
            "description": "CloudEvents 1.0 in the structured mode; data is the document.",
            "type": "object",
            "required": ["specversion", "type", "source", "id", "data"],
            "properties": {
                "specversion": {"const": "1.0"},
                "type": {"type": "string"},
                "source": {"type": "string", "format": "uri-reference"},
                "id": {"type": "string", "minLength": 1},
                "datacontenttype": {"type": "string"},
                "traceparent": {"type": "string"},
                "data": {"type": "object"},
            },
        },
    ),
    "cancellation": (
        "application/json",
        {"title": "Cancellation", "type": ["string", "array"], "items": {"type": "string"}, "description": "Run ids."},
    ),
    "bytes": ("application/octet-stream", {"title": "Bytes", "description": "At most 512 KiB.", "type": "string"}),
    "original": (
        "application/octet-stream",
        {"title": "Original", "description": "The original message without secrets.", "type": "string"},
    ),
    "lock_table": ("application/json", {"title": "LockTable", "description": "Read by gatekeepers only.", "type": "object"}),
    "max_deliveries": (
        "application/json",
        {
            "title": "MaxDeliveries",
            "description": "The server's advisory.",
            "type": "object",
            "required": ["stream", "consumer", "stream_seq", "deliveries"],
            "properties": {
                "stream": {"type": "string"},
                "consumer": {"type": "string"},
                "stream_seq": {"type": "integer"},
                "deliveries": {"type": "integer"},
            },
        },
    ),
    "empty": ("application/json", {"title": "Empty", "description": "Nothing.", "type": "string", "maxLength": 0}),
    "service_record": (
        "application/json",
        {"title": "ServiceRecord", "description": "A process's entry in the NATS services protocol.", "type": "object"},
    ),
}


def component(name: str, place: str = "") -> str:
    """The component that holds a schema, or a part of it: ``task_contract.v1`` is ``TaskContractV1``."""
    words = [*name.replace(".", "_").split("_"), *place.split("_")]
    return "".join(word[:1].upper() + word[1:] for word in words)


def components(names: Iterable[str]) -> Json:
    """Return the components of these schemas by name, sorted."""
    made: Json = {}
    waiting = sorted(set(names))
    while waiting:
        name = waiting.pop()
        key = component(*name.partition("#")[::2])
        if key in made:
            continue
        made[key], needed = _component(name)
        waiting += sorted(needed)
    return dict(sorted(made.items()))


def content_type(name: str) -> str:
    """Return the content type of such a message."""
    return FOREIGN[name][0] if name in FOREIGN else "application/json"


def example(name: str) -> Json:
    """Return the smallest valid example beside a document's schema."""
    found = schema_directory() / "examples" / name / "valid" / "minimal.json"
    loaded: Json = json.loads(found.read_bytes())
    return loaded


def _component(name: str) -> tuple[Json, set[str]]:
    """A schema, or a part of it (``task_contract.v1#run_id``), and those that it refers to."""
    if name in FOREIGN:
        return FOREIGN[name][1], set()
    home, _, place = name.partition("#")
    whole = load(home)
    needed: set[str] = set()
    made = _rewritten(whole["$defs"][place] if place else whole, home, needed)
    return made, needed


def _rewritten(node: Any, home: str, needed: set[str]) -> Any:
    if isinstance(node, list):
        return [_rewritten(each, home, needed) for each in node]
    if not isinstance(node, dict):
        return node
    beside = {key: _rewritten(value, home, needed) for key, value in node.items() if key not in {*_OF_THE_FILE, "$ref"}}
    if "$ref" not in node:
        return beside
    file, _, path = node["$ref"].partition("#")
    target = file.removesuffix(".json") or home
    piece = path.removeprefix("/$defs/")
    needed.add(f"{target}#{piece}" if piece else target)
    reference = {"$ref": f"#/components/schemas/{component(target, piece)}"}
    return beside | {"allOf": [reference]} if beside else reference


def is_ours(name: str) -> bool:
    """Return whether a schema of shared/schemas has this name."""
    return name in schemas.names()
