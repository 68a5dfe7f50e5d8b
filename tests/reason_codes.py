"""Every reason code that the sources give: read from their syntax, not from running them."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import gatewright

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(gatewright.__file__).resolve().parent
#: What stands where a code does and is none: a gate that passes.
NO_REASON = "ok"
_CODE = re.compile(r"[a-z][a-z0-9_]*")
_TABLES = ("CODE", "CODES")


@cache
def sources() -> dict[Path, ast.Module]:
    """The syntax of every module of the product but the table of reasons itself."""
    folders = (PACKAGE, ROOT / "services")
    files = sorted({path.resolve() for folder in folders for path in folder.rglob("*.py")})
    return {path: ast.parse(path.read_text("utf-8")) for path in files if PACKAGE / "reasons" not in path.parents}


def given_codes(modules: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """By code: where it is given.

    Given is: an argument ``code`` of any call, by keyword or by position where a callable of the product has such a parameter
    or field; a class's ``code``; what a module calls CODE, CODES or ..._CODE; the second of three words that a function yields.
    Names of constants are followed. A code that is passed on (``error.reason``) was given elsewhere.
    """
    positions, constants = _positions(modules), _constants(modules)
    given: defaultdict[str, set[str]] = defaultdict(set)
    for path, module in modules.items():
        for node in ast.walk(module):
            for value in (each for found in _values(node, positions) for each in ast.walk(found)):
                for code in _words(value, path, constants):
                    given[code].add(f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}")
    return {code: places for code, places in given.items() if _CODE.fullmatch(code) and code != NO_REASON}


def all_words(modules: Mapping[Path, ast.Module]) -> set[str]:
    """Every string that stands in the sources by itself."""
    return {
        node.value
        for module in modules.values()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _values(node: ast.AST, positions: Mapping[str, set[int]]) -> Iterator[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            given += [node.args[place] for place in positions.get(name, ()) if place < len(node.args)]
            yield from (value for value in given if isinstance(value, ast.Constant | ast.Name | ast.IfExp | ast.BoolOp))
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
        if "code" in names:
            found[node.name].add(names.index("code"))
    return found


def _field(statement: ast.stmt) -> str:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if "ClassVar" not in ast.unparse(kind):
            return name
    return ""


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
