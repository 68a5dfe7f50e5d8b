"""No test asserts that something took less than some time: a busy machine would make it red."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.ci.test_tests_assert import TESTS, Function, python_files, tree_of

_CLOCKS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "time", "time_ns"})


def reads_clock(expression: ast.AST, measured: frozenset[str] | set[str]) -> bool:
    """Whether a clock is read in the expression, or a name in it holds what was read from one."""
    return any(
        (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CLOCKS)
        or (isinstance(node, ast.Name) and node.id in measured)
        for node in ast.walk(expression)
    )


def measured_names(function: Function) -> set[str]:
    """The names of a function to which it assigns times, or what is computed from times."""
    names: set[str] = set()
    while True:
        found = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign)
            for target, value in _assigned(node)
            if not _is_comparison(value) and reads_clock(value, names)
        }
        if found <= names:
            return names
        names |= found


def _assigned(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> Iterator[tuple[ast.Name, ast.expr]]:
    """The names that get a value, and that value; of tuples, each with its own."""
    if node.value is None:
        return
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = (
            node.value.elts
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            else [node.value] * len(names)
        )
        yield from ((each, value) for each, value in zip(names, values, strict=False) if isinstance(each, ast.Name))


def _is_comparison(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Compare)


def upper_bounds(function: Function) -> Iterator[ast.Assert]:
    """The assertions of a function that hold a measured time against a limit."""
    measured = measured_names(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and any(
            _is_upper_bound(each, measured) for each in ast.walk(node.test) if isinstance(each, ast.Compare)
        ):
            yield node


def _is_upper_bound(comparison: ast.Compare, measured: set[str]) -> bool:
    sides = [comparison.left, *comparison.comparators]
    return any(
        (isinstance(operator, ast.Lt | ast.LtE) and reads_clock(left, measured))
        or (isinstance(operator, ast.Gt | ast.GtE) and reads_clock(right, measured))
        for left, operator, right in zip(sides, comparison.ops, sides[1:], strict=False)
    )


@pytest.mark.long
def test_no_test_asserts_how_soon_something_comes() -> None:
    found = {
        f"{path.relative_to(TESTS)}:{bound.lineno}"
        for path in python_files()
        for function in ast.walk(tree_of(path))
        if isinstance(function, Function)
        for bound in upper_bounds(function)
    }
    assert sorted(found) == [], "show by an order of events what these show by a clock; figures belong to benchmarks"


@pytest.mark.parametrize(
    ("body", "bounds"),
    [
        ("assert time.monotonic() - begun < 2", 1),
        ("late = time.monotonic() - begun\n    assert late <= 2", 1),
        ("late = loop.time() - begun\n    worst = max(late, 1)\n    assert 2 > worst", 1),
        ("late = time.monotonic() - begun\n    assert late > 2", 0),
        ("late = time.monotonic() - begun\n    assert 1 < late", 0),
        ("late = time.monotonic() - begun\n    assert 1 < late < 5", 1),
        ("found, late = [], time.monotonic() - begun\n    assert late < 5", 1),
        ("found, late = [], time.monotonic() - begun\n    assert len(found) < 5", 0),
        ("late, found = taken(time.monotonic() - begun)\n    assert late < 5", 1),
        ("ok = time.monotonic() < 5\n    assert ok", 0),
        ("assert len(found) < 2", 0),
    ],
)
def test_upper_bound_is_found(body: str, bounds: int) -> None:
    (function,) = ast.parse(f"def test(begun):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert len(list(upper_bounds(function))) == bounds
