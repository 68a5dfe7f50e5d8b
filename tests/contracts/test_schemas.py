"""What the committed schema files owe their readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from gatewright.contracts import codec, schemas
from gatewright.contracts.schemas import written_out
from gatewright.errors import UnknownSchemaError
from gatewright.resources import schema_directory

#: Keywords that say something about documents; each has its words in the error report, or a place in _faults.
RULES = set(schemas.WORDS) | {"required", "additionalProperties", "properties", "items"}
ANNOTATIONS = {"$schema", "$id", "$ref", "$defs", "title", "description", "default", "format"}


def subschemas(node: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside a schema, with the path of keywords that leads to it."""
    yield place, node
    for key in ("properties", "$defs"):
        for name, child in node.get(key, {}).items():
            yield from subschemas(child, f"{place}/{key}/{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from subschemas(node[key], f"{place}/{key}")


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_a_schema_is_draft_2020_12_and_named_after_its_file(name: str) -> None:
    schema = schemas.load(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"{name}.json"
    assert schema["title"]
    assert schema["description"].endswith(".")


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_every_property_is_described(name: str) -> None:
    lacking = [
        f"{place}/{key}"
        for place, schema in subschemas(written_out(name))
        for key, child in schema.get("properties", {}).items()
        if not child.get("description")
    ]
    assert lacking == []


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_every_object_is_closed(name: str) -> None:
    for place, schema in subschemas(schemas.load(name)):
        if "properties" in schema:
            assert schema.get("additionalProperties") is False, place


@pytest.mark.parametrize("name", codec.DOCUMENTS)
def test_only_known_keywords_are_used(name: str) -> None:
    for place, schema in subschemas(schemas.load(name)):
        assert set(schema) <= RULES | ANNOTATIONS, place
        assert set(schema.get("required", ())) <= set(schema.get("properties", ())), place


def test_every_shared_piece_is_used() -> None:
    everything = "".join(path.read_text() for path in schema_directory().glob("*.json"))
    for name in schemas.load("task_contract.v1")["$defs"]:
        assert f'#/$defs/{name}"' in everything, name


@pytest.mark.parametrize("name", ["", "task_contract", "task_contract.v2", "../schemas/task_contract.v1", "*", "examples"])
def test_an_unknown_schema_is_refused(name: str) -> None:
    with pytest.raises(UnknownSchemaError):
        schemas.load(name)
    with pytest.raises(UnknownSchemaError):
        codec.decode_named(b"{}", name)


def test_the_table_in_the_documents_names_every_schema() -> None:
    page = (Path(__file__).parents[2] / "docs" / "schemas.md").read_text()
    assert [name for name in codec.DOCUMENTS if f"| `{name}` |" not in page] == []
