"""Schema files and structs are two views of one thing: whoever changes one has to change the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gatewright.contracts import codec, schemas
from gatewright.contracts.schemas import written_out
from gatewright.contracts.vocabulary import Document

#: Words for people, and what says nothing about which documents are valid.
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description", "format"}


def comparable(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """One spelling for the several that JSON Schema has: no references, no annotations, null as a flag, sorted sets."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].removeprefix("#/$defs/")] | {k: v for k, v in schema.items() if k != "$ref"}
    form = {key: value for key, value in schema.items() if key not in ANNOTATIONS}
    if "anyOf" in form:
        (inner,) = (each for each in form.pop("anyOf") if each != {"type": "null"})
        form = comparable(inner, definitions) | form | {"nullable": True}
    if isinstance(form.get("type"), list):
        kind, null = form["type"]
        assert null == "null"
        form |= {"type": kind, "nullable": True}
    if "const" in form:
        form["enum"] = [form.pop("const")]
    if "enum" in form:
        form |= {"enum": sorted((each for each in form["enum"] if each is not None), key=repr)}
        form.pop("type", None)
    if form.get("default", 0) is None:
        del form["default"]
    if isinstance(form.get("default"), tuple):
        form["default"] = list(form["default"])
    if "required" in form:
        form["required"] = sorted(form["required"])
    for name in ("items", "additionalProperties"):
        if isinstance(form.get(name), dict):
            form[name] = comparable(form[name], definitions)
    if "properties" in form:
        form["properties"] = {key: comparable(value, definitions) for key, value in form["properties"].items()}
        form.setdefault("required", [])
    return form


def differences(schema: Any, struct: Any, place: str = "") -> Iterator[str]:
    """Where the two comparable forms differ, as readable lines."""
    if isinstance(schema, dict) and isinstance(struct, dict):
        for key in sorted(schema.keys() | struct.keys()):
            yield from differences(schema.get(key, "absent"), struct.get(key, "absent"), f"{place}/{key}")
    elif schema != struct or isinstance(schema, bool) != isinstance(struct, bool):
        yield f"{place}: schema {schema!r}, struct {struct!r}"


def structs(kind: type[Document], seen: set[type[msgspec.Struct]]) -> None:
    """Add every struct that a document of type ``kind`` may hold, itself included, to ``seen``."""
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, msgspec.inspect.StructType):
            if node.cls in seen:
                continue
            seen.add(node.cls)
            waiting += [field.type for field in node.fields]
        for attribute in ("type", "item_type", "key_type", "value_type"):
            waiting += [inner] if isinstance(inner := getattr(node, attribute, None), msgspec.inspect.Type) else []
        waiting += getattr(node, "types", ())


def all_structs() -> list[type[msgspec.Struct]]:
    seen: set[type[msgspec.Struct]] = set()
    for kind in codec.DOCUMENTS.values():
        structs(kind, seen)
    return sorted(seen, key=lambda each: each.__name__)


def test_every_document_has_a_schema_file_and_every_file_a_document() -> None:
    assert schemas.names() == tuple(sorted(codec.DOCUMENTS))
    assert len(set(codec.DOCUMENTS.values())) == len(codec.DOCUMENTS)


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_schema_and_struct_say_the_same(name: str) -> None:
    struct = msgspec.json.schema(codec.DOCUMENTS[name])
    definitions = struct.pop("$defs")
    assert list(differences(comparable(written_out(name), {}), comparable(struct, definitions))) == []


@pytest.mark.parametrize("kind", all_structs())
def test_structs_are_frozen_and_refuse_unknown_fields(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.forbid_unknown_fields


@pytest.mark.parametrize("kind", all_structs())
def test_fields_with_two_spellings_of_one_value_are_settled(kind: type[msgspec.Struct]) -> None:
    """A float may be given as an integer, and a default may be given by an equal string: both would change the bytes."""
    required: dict[str, Any] = {field.name: None for field in msgspec.structs.fields(kind) if field.required}
    for field in msgspec.inspect.type_info(kind).fields:  # type: ignore[attr-defined]  # a struct's info has fields
        kinds = [field.type, *getattr(field.type, "types", ())]
        if any(isinstance(each, msgspec.inspect.FloatType) for each in kinds):
            made = kind(**required | {field.name: 3})
            assert isinstance(getattr(made, field.name), float), field.name
        if isinstance(field.default, str) and field.default and kind.__struct_config__.omit_defaults:
            made = kind(**required | {field.name: field.default.encode().decode()})
            assert getattr(made, field.name) is field.default, field.name


def test_a_drift_is_noticed() -> None:
    """The comparison itself: it sees a lost field, another bound, another enum, another default and a lost null."""

    class Drifted(Document):
        name: str | None = None
        count: int = 1

    struct = msgspec.json.schema(Drifted)
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 2}, "new": {"enum": ["a"]}},
        "required": ["count"],
    }
    found = list(differences(comparable(schema, {}), comparable(struct, struct["$defs"])))
    assert [line.split(":")[0] for line in found] == [
        "/properties/count/default",
        "/properties/name/nullable",
        "/properties/new",
        "/required",
    ]
