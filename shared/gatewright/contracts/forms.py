"""The two forms of a document's name: Gatewright's, and the one that CortexPilot writes where the two differ.

CortexPilot's form is read, so that its documents can be checked here. Nothing that decides takes it: on the bus, in bundles
and in the policies a document has Gatewright's form, whose every field the gates know.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from gatewright.contracts import schemas
from gatewright.contracts.strict_json import parse
from gatewright.errors import Fault, MalformedError
from gatewright.resources import schema_directory

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

#: The file, under the folder of the schemas and as its own ``$id``.
FILE = "cortexpilot/documents.json"
#: The reason code of a document that would be valid in CortexPilot's form where only Gatewright's is taken.
CODE = "cortexpilot_form"

Form = Literal["gatewright", "cortexpilot"]


class FormReading(NamedTuple):
    """The form that a document keeps, or comes closer to, and what is wrong with it in that form."""

    form: Form
    faults: tuple[Fault, ...]


@cache
def names() -> tuple[str, ...]:
    """The schema names whose documents CortexPilot writes in a form of its own, sorted."""
    return tuple(sorted(set(_definitions()) & set(schemas.names())))


def read(name: str, data: bytes) -> FormReading:
    """``data`` held against the schema ``name`` in either form; where it keeps neither, in the one with fewer faults.

    Raises UnknownSchemaError.
    """
    faults = schemas.fault_report(name, data)
    if faults and name in names():
        try:
            others = schemas.faults_of(_validator(name), parse(data))
        except MalformedError:
            return FormReading("gatewright", faults)
        if len(others) < len(faults):
            return FormReading("cortexpilot", others)
    return FormReading("gatewright", faults)


def is_cortexpilots(name: str, data: bytes) -> bool:
    """Return whether ``data``, refused in Gatewright's form, is a valid ``name`` of CortexPilot; stops at the first fault."""
    try:
        return name in names() and _validator(name).is_valid(parse(data))
    except MalformedError:
        return False


def required_fields() -> dict[str, list[frozenset[str]]]:
    """Schema name -> the fields that each of its forms requires."""
    fields = {name: [frozenset(schemas.load(name).get("required", ()))] for name in schemas.names()}
    for name in names():
        fields[name].append(frozenset(_definitions()[name]["required"]))
    return fields


@cache
def _load_forms() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((schema_directory() / FILE).read_bytes())
    return loaded


def _definitions() -> dict[str, Any]:
    definitions: dict[str, Any] = _load_forms()["$defs"]
    return definitions


@cache
def _validator(name: str) -> Validator:
    from jsonschema import Draft202012Validator  # late, as in schemas.validator
    from referencing import Registry, Resource

    registry: Registry[Any] = Registry().with_resource(FILE, Resource.from_contents(_load_forms()))
    return Draft202012Validator({"$ref": f"{FILE}#/$defs/{name}"}, registry=registry)
