"""The JSON Schemas: where they lie, and the error report that they give."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from gatewright.errors import Fault, UnknownSchemaError
from gatewright.resources import schema_directory

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

#: More faults than this are not reported: a hostile document must not cost more than an honest one.
MAX_FAULTS = 50


def names() -> tuple[str, ...]:
    """All schema names, sorted: ``task_contract.v1`` ..."""
    return tuple(sorted(path.name.removesuffix(".json") for path in schema_directory().glob("*.v*.json")))


@cache
def load(name: str) -> dict[str, Any]:
    """The schema as a dictionary. Raises UnknownSchemaError."""
    if name not in names():
        raise UnknownSchemaError(f"unknown schema {name!r}")
    loaded: dict[str, Any] = json.loads((schema_directory() / f"{name}.json").read_bytes())
    return loaded


@cache
def validator(name: str) -> Validator:
    """A validator for one schema, with references to its neighbours resolved locally and formats not asserted."""
    # Imported late: it costs more than the rest of a role's start, and only refusals need it.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry, Resource  # noqa: PLC0415

    registry: Registry[Any] = Registry().with_resources(
        (f"{other}.json", Resource.from_contents(load(other))) for other in names()
    )
    return Draft202012Validator(load(name), registry=registry)


def fault_report(name: str, data: bytes) -> tuple[Fault, ...]:
    """Everything that is wrong with ``data`` under schema ``name``; empty when nothing is."""
    try:
        document = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return (Fault("", "not_json", f"not JSON: {error}"),)
    faults = []
    for error in validator(name).iter_errors(document):
        faults.append(Fault(_pointer(error.absolute_path), str(error.validator), error.message[:500]))
        if len(faults) == MAX_FAULTS:
            break
    return tuple(sorted(faults))


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _pointer(path: Any) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
