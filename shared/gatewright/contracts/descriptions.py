"""The descriptions of documents and fields, read from the source: Python does not keep the strings below fields.

The docstring of a struct describes a document. The string below a field describes the field; a field without one has the
description of the alias or struct that its annotation names::

    Sha256 = Annotated[str, Meta(pattern=...)]
    \"""A SHA-256 digest in hex.\"""

    class Artifact(Document):
        name: str
        \"""Its name in this document.\"""
        sha256: Sha256
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import NamedTuple

import msgspec

Struct = type[msgspec.Struct]


class Texts(NamedTuple):
    """Descriptions in one module: aliases and structs by name, fields by struct and name; ``origins``: module of an imported
    name.
    """

    names: dict[str, str]
    fields: dict[tuple[str, str], str]
    origins: dict[str, str]


def description_of_document(kind: Struct) -> str:
    """The docstring of a struct, on one line."""
    return _join_words(kind.__doc__ or "")


def description_of_field(kind: Struct, field: str) -> str:
    """Return the description of a struct's field on one line; empty without one."""
    (owner, *_) = (each for each in kind.__mro__ if field in inspect.get_annotations(each))
    texts = _texts(sys.modules[owner.__module__])
    return texts.fields.get((owner.__name__, field)) or _of_type(texts, inspect.get_annotations(owner)[field])


def _of_type(texts: Texts, annotation: str) -> str:
    """Return the description of the type in an annotation, such as ``RunId`` or ``RunId | None``."""
    node = ast.parse(annotation, mode="eval").body
    node = node.left if isinstance(node, ast.BinOp) else node
    if not isinstance(node, ast.Name):
        return ""
    if origin := texts.origins.get(node.id):
        texts = _texts(sys.modules[origin])
    return texts.names.get(node.id, "")


@cache
def _texts(module: ModuleType) -> Texts:
    texts = Texts({}, {}, {})
    for node, words in _with_strings(ast.parse(inspect.getsource(module)).body):
        match node:
            case ast.ImportFrom(module=str() as origin) if origin.startswith(__package__ or ""):
                texts.origins.update((alias.name, origin) for alias in node.names)
            case ast.Assign(targets=[ast.Name(id=name)]):
                texts.names[name] = words
            case ast.ClassDef(name=name):
                texts.names[name] = _join_words(ast.get_docstring(node) or "")
                inner = _with_strings(node.body)
                texts.fields.update(((name, _target(field)), text) for field, text in inner if text and _target(field))
            case _:
                pass
    return texts


def _target(node: ast.stmt) -> str:
    return node.target.id if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else ""


def _with_strings(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with the string below it, or with nothing."""
    for node, below in zip(body, [*body[1:], None], strict=True):
        match below:
            case ast.Expr(value=ast.Constant(value=str() as words)):
                yield node, _join_words(words)
            case _:
                yield node, ""


def _join_words(words: str) -> str:
    return " ".join(words.replace("``", "").split())
