"""Writes the JSON Schemas in ``shared/schemas`` from the structs: ``python -m gatewright.contracts.schema_files [--check]``.

A struct is the one definition of a document. Its annotations give the types and bounds, its docstrings the descriptions
(``descriptions.py``).

``msgspec.json.schema`` is not used: it sorts the values of enums, and writes null as ``anyOf``, under which a fault has no
place of its own. A rule between fields cannot be expressed, and no document has one.

A struct that one field alone uses stands where it is used. One that several use stands in the ``$defs`` of one document, and
the others refer to it (``_homes``). A struct that is a document itself is referred to by its file.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import types
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from gatewright.contracts import TaskContract
from gatewright.contracts.codec import DOCUMENTS
from gatewright.contracts.descriptions import description_of_document, description_of_field
from gatewright.contracts.vocabulary import END
from gatewright.resources import schema_directory

Json = dict[str, Any]
Struct = type[msgspec.Struct]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: Base64 as RFC 4648 writes it (section 4), with zeros in the bits that are not used.
_BASE64: Final = rf"^([A-Za-z0-9+/]{{4}})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{{2}}[AEIMQUYcgkosw048]=)?{END}"
#: The columns that one line of a schema file may have.
WIDTH: Final = 128
#: The keywords of a schema in the order in which they are written. Prompts quote schemas: another order changes their bytes.
_ORDER: Final = [
    "type",
    "$ref",
    "const",
    "enum",
    "pattern",
    "format",
    "additionalProperties",
    "required",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "default",
    "items",
    "description",
    "properties",
]
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NAMES: Final[dict[Struct, str]] = {kind: name for name, kind in DOCUMENTS.items()}
#: Attribute of ``msgspec.Meta`` -> keyword, where the type does not decide. One that is missing here raises KeyError.
_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "pattern": "pattern"}
#: Titles that the name of the struct does not give.
_TITLES: Final = {"reexec_report.v1": "Re-execution report"}


class Use(NamedTuple):
    """A field that holds a struct, inside tuples or not; ``nullable``: it admits null in its place."""

    user: Struct
    held: Struct
    nullable: bool


def schema_files() -> dict[str, str]:
    """File name -> text, for every document."""
    return {f"{name}.json": _json_text(_document_schema(name, kind)) + "\n" for name, kind in DOCUMENTS.items()}


def _document_schema(name: str, kind: Struct) -> Json:
    title = _TITLES.get(name) or " ".join(_split_name(kind.__name__)).capitalize()
    head = {"$schema": DIALECT, "$id": f"{name}.json", "title": title, "description": description_of_document(kind)}
    pieces = sorted((piece for piece, home in _homes().items() if home is kind), key=_piece_name)
    definitions = {_piece_name(piece): _object(piece, name, nullable=piece in _nullable()) for piece in pieces}
    return {**head, **_object(kind, name), **({"$defs": definitions} if definitions else {})}


# --- types ---


def _object(kind: Struct, home: str, *, nullable: bool = False) -> Json:
    """The schema of a struct that stands in the file ``home``."""
    fields = msgspec.structs.fields(kind)
    hints = get_type_hints(kind, include_extras=True)
    properties = {field.encode_name: _property(kind, field, hints[field.name], home) for field in fields}
    required = [field.encode_name for field in fields if field.required]
    made: Json = {"type": ["object", "null"] if nullable else "object", "additionalProperties": False, "properties": properties}
    return _in_written_order(made | ({"required": required} if required else {}))


def _property(kind: Struct, field: msgspec.structs.FieldInfo, hint: Any, home: str) -> Json:
    made = schema_of(hint, home)
    if field.default is not msgspec.NODEFAULT and field.default is not None:
        made["default"] = msgspec.to_builtins(field.default)
    if words := description_of_field(kind, field.name):
        made["description"] = words
    return _in_written_order(made)


def schema_of(hint: Any, home: str = "") -> Json:
    """The schema of an annotation in the file ``home``. Raises TypeError for one that no document has used so far."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if _is_struct(hint):
        return _struct(hint, home)
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if hint is bytes:
        return {"type": "string", "pattern": _BASE64}
    if origin is Annotated:
        return _with_bounds(schema_of(arguments[0], home), hint.__metadata__)
    if origin is Literal:
        return _literal(arguments)
    if origin is tuple and arguments[1:] == (...,):
        return {"type": "array", "items": schema_of(arguments[0], home)}
    if origin is dict and arguments[0] is str:
        values = schema_of(arguments[1], home)
        return {"type": "object", **({"additionalProperties": values} if values else {})}
    if origin in {Union, types.UnionType} and len(arguments) == 2 and arguments[1] is type(None):
        return _or_null(arguments[0], home)
    raise TypeError(f"no JSON Schema is known for the annotation {hint!r}")


def _with_bounds(made: Json, metadata: tuple[Any, ...]) -> Json:
    lengths = "Length" if made["type"] == "string" else "Items"
    keywords = _BOUNDS | {"min_length": f"min{lengths}", "max_length": f"max{lengths}"}
    for meta in metadata:
        bounds = {name: value for name, value, *_ in meta.__rich_repr__() if name != "extra_json_schema"}
        made |= {keywords[name]: bound for name, bound in bounds.items()} | (meta.extra_json_schema or {})
    return _in_written_order(made)


def _literal(values: tuple[Any, ...]) -> Json:
    kind = _TYPES[type(values[0])]
    return {"type": kind, "const": values[0]} if len(values) == 1 else {"type": kind, "enum": list(values)}


def _or_null(hint: Any, home: str) -> Json:
    if _is_struct(hint):
        return _piece(hint, home) if hint in _homes() else _object(hint, home, nullable=True)
    made = schema_of(hint, home)
    return made | {"type": [made["type"], "null"]} | ({"enum": [*made["enum"], None]} if "enum" in made else {})


def _struct(kind: Struct, home: str) -> Json:
    if kind in _NAMES:
        return {"$ref": f"{_NAMES[kind]}.json"}
    if kind not in _homes():
        return _object(kind, home)
    return ({"type": "object"} if kind in _nullable() else {}) | _piece(kind, home)


def _piece(kind: Struct, home: str) -> Json:
    file = _NAMES[_homes()[kind]]
    return {"$ref": f"{'' if file == home else f'{file}.json'}#/$defs/{_piece_name(kind)}"}


def _in_written_order(made: Json) -> Json:
    return dict(sorted(made.items(), key=lambda item: _ORDER.index(item[0])))


# --- shared pieces ---


@cache
def _uses() -> tuple[Use, ...]:
    """Every field of a document, or of a struct inside one, that holds a struct."""
    uses: list[Use] = []
    seen: set[Struct] = set()
    waiting: list[Struct] = list(DOCUMENTS.values())
    while waiting:
        if (user := waiting.pop()) in seen:
            continue
        seen.add(user)
        for hint in get_type_hints(user, include_extras=True).values():
            uses += (found := [Use(user, held, nullable) for held, nullable in _held_structs(hint)])
            waiting += [use.held for use in found]
    return tuple(uses)


def _held_structs(hint: Any, *, nullable: bool = False) -> Iterator[tuple[Struct, bool]]:
    if _is_struct(hint):
        yield hint, nullable
    elif get_origin(hint) is not Literal:
        for each in get_args(hint):
            yield from _held_structs(each, nullable=type(None) in get_args(hint))


@cache
def _nullable() -> frozenset[Struct]:
    """Return the structs for which some field permits null: their shared schema does, and a field without null excludes it."""
    return frozenset(use.held for use in _uses() if use.nullable)


@cache
def _homes() -> dict[Struct, Struct]:
    """Every struct that several fields use -> the document whose ``$defs`` have it.

    That is the task contract when it uses the struct, else the first document of the struct's own module that does, else
    the first by name.
    """
    often = Counter(use.held for use in _uses() if use.held not in _NAMES)
    shared = [kind for kind, number in often.items() if number > 1]
    users = {kind: [document for document in _NAMES if kind in _inner_structs(document)] for kind in shared}
    return {kind: min(users[kind], key=lambda document: _distance(kind, document)) for kind in shared}


def _distance(piece: Struct, document: Struct) -> tuple[bool, int, str]:
    near = document.__module__ == piece.__module__
    return document is not TaskContract, _definition_line(document) if near else sys.maxsize, _NAMES[document]


@cache
def _inner_structs(document: Struct) -> frozenset[Struct]:
    """The structs inside a document, without those inside the documents that it holds."""
    seen: set[Struct] = set()
    waiting = [document]
    while waiting:
        kind = waiting.pop()
        held = {use.held for use in _uses() if use.user is kind} - seen - _NAMES.keys()
        seen |= held
        waiting += held
    return frozenset(seen)


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _piece_name(kind: Struct) -> str:
    return "_".join(_split_name(kind.__name__))


def _split_name(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z][a-z0-9]*", name)]  # noqa: TID251 - names of our own classes


def _definition_line(kind: Struct) -> int:
    return inspect.getsourcelines(kind)[1]


# --- text ---


def _json_text(value: Any, indent: str = "", before: int = 0) -> str:
    """JSON in which what fits on one line stands on one; ``before`` counts the characters in front of it."""
    flat = json.dumps(value, ensure_ascii=False)
    flat = f"{{ {flat[1:-1]} }}" if isinstance(value, dict) and value else flat
    fits = len(indent) + before + len(flat) < WIDTH
    inner = indent + "  "
    if isinstance(value, dict) and (not fits or "properties" in value):
        keys = {key: json.dumps(key, ensure_ascii=False) for key in value}
        lines = [f"{keys[key]}: {_json_text(each, inner, len(keys[key]) + 2)}" for key, each in value.items()]
        return "{\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}}}"
    if isinstance(value, list) and not fits:
        return "[\n" + ",\n".join(inner + _json_text(each, inner) for each in value) + f"\n{indent}]"
    return flat


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` name those that are stale. Returns an exit code."""
    folder = schema_directory()
    files = schema_files()
    stale = [name for name, text in files.items() if not _holds(folder / name, text)]
    strangers = sorted(path.name for path in folder.glob("*.json") if path.name not in files)
    if "--check" in arguments:
        for name in (*stale, *strangers):
            sys.stderr.write(
                f"shared/schemas/{name} is not what the structs give. Run: python -m gatewright.contracts.schema_files\n"
            )
        return int(bool(stale or strangers))
    for name in stale:
        (folder / name).write_text(files[name], "utf-8")
    for name in strangers:
        (folder / name).unlink()
    return 0


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
