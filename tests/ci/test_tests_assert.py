"""Every test can fail: it asserts, expects an error, or calls a helper that does; and no assertion is true whatever happens."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
#: Fixtures that assert in what they hand over, which the text of a test does not show.
ASSERTING_FIXTURES = frozenset({"shell"})
_EXPECTING = frozenset({"raises", "fail", "warns"})
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def functions_of(path: Path) -> Mapping[str, Function]:
    """The functions at the top of a module, by name."""
    return {node.name: node for node in tree_of(path).body if isinstance(node, Function)}


@cache
def imported(path: Path) -> Mapping[str, tuple[Path, str]]:
    """What a module has from other modules of the tests: name -> where it is, and what it is called there."""
    found: dict[str, tuple[Path, str]] = {}
    for node in tree_of(path).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            other = TESTS.parent.joinpath(*(node.module or "").split(".")).with_suffix(".py")
            if other.is_file():
                found |= {name.asname or name.name: (other, name.name) for name in node.names}
    return found


def can_fail(path: Path, function: Function, seen: frozenset[tuple[Path, str]] = frozenset()) -> bool:
    """Whether the function asserts or expects an error, itself or in a function of the tests that it names."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr in _EXPECTING):
            return True
        if isinstance(node, ast.Name) and (node.id in ASSERTING_FIXTURES or _helper_can_fail(path, node.id, seen)):
            return True
    return False


def _helper_can_fail(path: Path, name: str, seen: frozenset[tuple[Path, str]]) -> bool:
    path, name = imported(path).get(name, (path, name))
    helper = functions_of(path).get(name)
    if helper is None or (path, name) in seen:
        return False
    return can_fail(path, helper, seen | {(path, name)})


def always_true(condition: ast.expr) -> bool:
    """A constant, a tuple with something in it, a thing beside itself, a length of at least 0, or one of them behind ``or``."""
    match condition:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=elements):
            return bool(elements)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(always_true(value) for value in values)
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return True
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            # A call may well answer differently the second time.
            calls = any(isinstance(node, ast.Call | ast.Await) for node in ast.walk(left))
            return not calls and ast.dump(left) == ast.dump(right)
        case ast.Call(func=ast.Name(id="all"), args=[ast.List(elts=[]) | ast.Tuple(elts=[])]):
            return True
        case _:
            return False


def python_files() -> Iterator[Path]:
    return (path for path in sorted(TESTS.rglob("*.py")) if "__pycache__" not in path.parts)


def listed_tests(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function) and node.name.startswith("test_"):
            yield node


@pytest.mark.long
def test_no_test_is_without_an_assertion() -> None:
    tests = [(path, test) for path in python_files() for test in listed_tests(path)]
    assert len(tests) > 1000, "the tests are not where they are looked for"
    silent = [f"{path.relative_to(TESTS)}:{test.lineno} {test.name}" for path, test in tests if not can_fail(path, test)]
    assert silent == [], "these tests cannot fail; assert what is to be seen, or take them out"


@pytest.mark.long
def test_no_assertion_is_true_whatever_happens() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}"
        for path in python_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert) and always_true(node.test)
    ]
    assert found == []


def test_a_test_that_cannot_fail_is_found(tmp_path: Path) -> None:
    module = tmp_path / "test_example.py"
    module.write_text(
        "import pytest\n"
        "def checks(): assert compute()\n"
        "def runs(): compute()\n"
        "def test_direct(): assert compute()\n"
        "def test_expecting():\n    with pytest.raises(ValueError): compute()\n"
        "def test_through_a_helper(): checks()\n"
        "def test_as_a_value(): compute(hook=checks)\n"
        "async def test_silent(): runs()\n"
        "def test_empty(): pass\n"
    )
    assert [test.name for test in listed_tests(module) if not can_fail(module, test)] == ["test_silent", "test_empty"]
    claims = ["True", "(a, 'b')", "a == a", "len(a) >= 0", "a or 1", "all([])"]
    honest = ["a", "a == b", "f() == f()", "len(a) > 0", "a or b", "all(a)", "False", "()"]
    assert [claim for claim in (*claims, *honest) if always_true(ast.parse(claim, mode="eval").body)] == claims
