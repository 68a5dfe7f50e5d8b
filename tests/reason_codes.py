"""Every reason code that the sources give: read from their syntax, not from running them."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import get_args

import gatewright
from gatewright.contracts.queue_policy import LeaveCode

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(gatewright.__file__).resolve().parent
#: What stands where a code does and is none: a gate that passes.
NO_REASON = "ok"
#: How an entry leaves a merge queue. No reason code: ``CODES`` in the gatekeeper's package ``queue`` has the one of its run.
LEAVE_CODES = frozenset(get_args(LeaveCode))
_CODE = re.compile(r"[a-z][a-z0-9_]*")
_TABLES = ("CODE", "CODES")
_GIVEN = ast.Constant | ast.Name | ast.IfExp | ast.BoolOp | ast.JoinedStr
_PIECE = re.compile(r"[a-z0-9_]*")


@functools.cache
def sources() -> dict[Path, ast.Module]:
    """The syntax of every module of the product but the table of reasons itself."""
    folders = (PACKAGE, ROOT / "services")
    files = sorted({path.resolve() for folder in folders for path in folder.rglob("*.py")})
    return {path: ast.parse(path.read_text("utf-8")) for path in files if PACKAGE / "reasons" not in path.parents}


@functools.cache
def given_codes() -> dict[str, set[str]]:
    """By code: where it is given.

    Given is: an argument ``code`` or ``..._code`` of any call, by keyword or by position where a callable of the product has
    such a parameter or field; a class's ``code``; what a module calls CODE, CODES or ..._CODE; what a function called
    ``..._error_code`` returns; the second of three words that a function yields. Names of constants are followed. A code that
    is passed on (``error.reason``) was given elsewhere; one that is put together of pieces is not read (``composed_codes``).
    """
    constants = _constants(sources())
    given: defaultdict[str, set[str]] = defaultdict(set)
    for path, line, value in _all_values():
        for code in (code for part in _whole(value) for code in _words(part, path, constants)):
            if code not in LEAVE_CODES or path.parent.name != "queue":
                given[code].add(f"{path.relative_to(ROOT)}:{line}")
    return {code: places for code, places in given.items() if _CODE.fullmatch(code) and code != NO_REASON}


def composed_codes() -> set[str]:
    """Codes that are put together of pieces, as they stand in the sources: nobody finds them in the table."""
    return {
        ast.unparse(part)
        for _, _, value in _all_values()
        for part in ast.walk(value)
        if isinstance(part, ast.JoinedStr)
        and all(_PIECE.fullmatch(str(piece.value)) for piece in part.values if isinstance(piece, ast.Constant))
    }


@functools.cache
def _all_values() -> tuple[tuple[Path, int, ast.expr], ...]:
    """Every expression that stands where a code is given, with its place."""
    positions = _positions(sources())
    return tuple(
        (path, getattr(node, "lineno", 0), value)
        for path, module in sources().items()
        for node in ast.walk(module)
        for value in _values(node, positions)
    )


def _whole(value: ast.AST) -> Iterator[ast.AST]:
    """``value`` and its parts, but not the pieces of what is put together."""
    if not isinstance(value, ast.JoinedStr):
        yield value
        for part in ast.iter_child_nodes(value):
            yield from _whole(part)


def _values(node: ast.AST, positions: Mapping[str, set[int]]) -> Iterator[ast.expr]:
    match node:
        case ast.FunctionDef(name=name) if name.endswith("error_code"):
            yield from (each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            given = [keyword.value for keyword in node.keywords if _holds_code(keyword.arg)]
            given += [node.args[place] for place in positions.get(name, ()) if place < len(node.args)]
            yield from (value for value in given if isinstance(value, _GIVEN))
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            if name in {*_TABLES, "code"} or name.endswith(("_CODE", "_CODES")):
                yield value
        case ast.Yield(value=ast.Tuple(elts=[ast.Constant(), ast.Constant() as second, ast.Constant()])):
            yield second


def _words(value: ast.AST, path: Path, constants: Mapping[str, Mapping[Path, str]]) -> Iterator[str]:
    match value:
        case ast.Constant(value=str() as word):
            yield word
        case ast.Name(id=name) if name in constants:
            known = constants[name]
            yield from [known[path]] if path in known else known.values()


def _positions(modules: Mapping[Path, ast.Module]) -> dict[str, set[int]]:
    """By the name of a callable: where its parameter or field ``code`` stands."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for node in (node for module in modules.values() for node in ast.walk(module)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            case ast.ClassDef():
                names = [name for statement in node.body if (name := _field(statement))]
            case _:
                continue
        found[node.name] |= {place for place, name in enumerate(names) if _holds_code(name)}
    return found


def _holds_code(name: str | None) -> bool:
    return name is not None and (name == "code" or name.endswith("_code"))


def _field(statement: ast.stmt) -> str:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if not _is_class_variable(kind):
            return name
    return ""


def _is_class_variable(kind: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "ClassVar" for node in ast.walk(kind))


def _constants(modules: Mapping[Path, ast.Module]) -> dict[str, dict[Path, str]]:
    found: defaultdict[str, dict[Path, str]] = defaultdict(dict)
    for path, module in modules.items():
        for statement in module.body:
            match statement:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as word))
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str() as word))
                ):
                    found[name][path] = word
    return found
