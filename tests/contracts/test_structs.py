"""What the schemas cannot show of the structs that they are made of, and what is made of a struct."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from gatewright.contracts import codec, schema_files, schemas
from gatewright.contracts.vocabulary import Document
from gatewright.resources import schema_directory


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


def test_the_committed_files_are_what_the_structs_give() -> None:
    for name, text in schema_files.schema_files().items():
        assert (schema_directory() / name).read_text("utf-8") == text, "python -m gatewright.contracts.schema_files"


def test_stale_and_foreign_files_are_reported_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_files, "schema_directory", lambda: tmp_path)
    assert schema_files.main([]) == 0
    assert schema_files.main(["--check"]) == 0
    (tmp_path / "plan.v1.json").write_text("{}")
    (tmp_path / "old.v1.json").write_text("{}")
    assert schema_files.main(["--check"]) == 1
    assert schema_files.main([]) == 0
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == schema_files.schema_files()


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


@pytest.mark.parametrize("bound", [Meta(lt=3), Meta(multiple_of=2), Meta(description="words")])
def test_a_bound_that_no_schema_would_have_is_refused(bound: Meta) -> None:
    with pytest.raises(KeyError):
        schema_files.schema_of(Annotated[int, bound])


@pytest.mark.parametrize("annotation", [bytearray, int | str, list[str], tuple[int, str], dict[int, str], set[str]])
def test_an_annotation_that_no_schema_would_have_is_refused(annotation: object) -> None:
    with pytest.raises(TypeError):
        schema_files.schema_of(annotation)


def test_a_struct_that_one_field_uses_stands_inline() -> None:
    contract = schemas.load("task_contract.v1")
    assert contract["properties"]["inputs"]["properties"]["artifacts"]["items"] == {"$ref": "#/$defs/artifact"}
    assert "inputs" not in contract["$defs"]


def test_a_shared_piece_admits_null_only_where_the_struct_does() -> None:
    assert schemas.load("task_contract.v1")["$defs"]["repository"]["type"] == ["object", "null"]
    assert schemas.load("run_request.v1")["properties"]["repository"]["type"] == "object"
