"""The JSON Schemas: where they lie, and the error report that they give.

A report never quotes a value of the document: it may end in a log or with a stranger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from gatewright.contracts.strict_json import MAX_WORDS, parse, pointer
from gatewright.errors import Fault, MalformedError, UnknownSchemaError
from gatewright.resources import schema_directory

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

#: More faults than this are not reported: a hostile document must not cost more than an honest one.
MAX_FAULTS = 50

#: Keyword -> the rule in words; ``{}`` stands for the keyword's value.
WORDS = {
    "type": "must be {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "pattern": "must match {}",
    "minLength": "must have a length of at least {}",
    "maxLength": "must have a length of at most {}",
    "minItems": "must have at least {} item(s)",
    "maxItems": "must have at most {} item(s)",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
}


def names() -> tuple[str, ...]:
    """All schema names, sorted: ``task_contract.v1`` ..."""
    return tuple(sorted(path.name.removesuffix(".json") for path in schema_directory().glob("*.v*.json")))


@cache
def load(name: str) -> dict[str, Any]:
    """The schema as a dictionary. Raises UnknownSchemaError."""
    if name not in names():
        raise UnknownSchemaError(f"unknown schema {name[:MAX_WORDS]!r}")
    loaded: dict[str, Any] = json.loads((schema_directory() / f"{name}.json").read_bytes())
    return loaded


@cache
def written_out(name: str) -> dict[str, Any]:
    """The schema with what its references name in their place. Raises UnknownSchemaError."""
    whole: dict[str, Any] = _written_out(load(name), name)
    return whole


def _written_out(node: Any, home: str) -> Any:
    if isinstance(node, list):
        return [_written_out(each, home) for each in node]
    if not isinstance(node, dict):
        return node
    beside = {key: _written_out(value, home) for key, value in node.items() if key not in {"$ref", "$defs"}}
    if "$ref" not in node:
        return beside
    file, _, place = node["$ref"].partition("#")
    target_home = file.removesuffix(".json") or home
    target: Any = load(target_home)
    for step in place.split("/")[1:]:
        target = target[step]
    return _written_out(target, target_home) | beside


@cache
def validator(name: str) -> Validator:
    """A validator for one schema, with references to its neighbours resolved locally and formats not asserted."""
    # Imported late: it costs more than the rest of a role's start, and only refusals need it.
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    registry: Registry[Any] = Registry().with_resources(
        (f"{other}.json", Resource.from_contents(load(other))) for other in names()
    )
    return Draft202012Validator(load(name), registry=registry)


def fault_report(name: str, data: bytes) -> tuple[Fault, ...]:
    """Return the faults of ``data`` under schema ``name``, sorted by pointer; empty when it is valid.

    The pointer of a missing or unknown field leads to the field itself, not to the object around it.

    Raises:
        UnknownSchemaError: there is no such schema.
    """
    try:
        value = parse(data)
    except MalformedError as error:
        return error.faults
    return faults_of(validator(name), value)


def faults_of(rules: Validator, value: Any) -> tuple[Fault, ...]:
    """Return the faults of ``value`` under ``rules``, like ``fault_report``."""
    found: dict[tuple[str, str], Fault] = {}
    for violation in rules.iter_errors(value):
        for fault in _violation_faults(violation):
            found.setdefault((fault.pointer, fault.code), fault)
        if len(found) >= MAX_FAULTS:
            break
    mistyped = {fault.pointer for fault in found.values() if fault.code == "type"}  # further faults there are noise
    relevant = (fault for fault in found.values() if fault.code == "type" or fault.pointer not in mistyped)
    return tuple(sorted(relevant))[:MAX_FAULTS]


def _violation_faults(violation: ValidationError) -> Iterator[Fault]:
    path, keyword = tuple(violation.absolute_path), str(violation.validator)
    here: Any = violation.instance
    rule: Any = violation.validator_value
    schema: Any = violation.schema
    if keyword == "required":
        yield from (Fault(pointer((*path, name)), keyword, "is required") for name in rule if name not in here)
    elif keyword == "additionalProperties":
        unknown = (name for name in here if name not in schema["properties"])
        yield from (Fault(pointer((*path, name)), keyword, "is not a known field") for name in islice(unknown, MAX_FAULTS))
    else:
        yield Fault(pointer(path), keyword, WORDS[keyword].format(_in_words(rule)))


def _in_words(rule: Any) -> str:
    if isinstance(rule, list):
        return " or ".join(_in_words(each) for each in rule)
    return rule if isinstance(rule, str) else json.dumps(rule)
