"""The tests that run each of the ordered lines; without such lines nothing is changed.

A call is inserted before the statements of these lines when their module is loaded. The suite runs at about its normal
speed, and other tracers (a debugger, coverage) are undisturbed. A module that is not loaded from its source is not traced.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from typing import Any

from . import channel

_PROBE = "__gatewright_ran__"


class Tracer:
    """Traces the ``order``'s lines; ``take`` returns those that ran since the last call."""

    def __init__(self, order: channel.ReceivedOrder) -> None:
        self._order = order
        self._now: set[tuple[str, int]] = set()

    def start(self) -> None:
        """Start tracing all modules that are loaded from now on."""
        if not self._order.lines:
            return

        def ran(path: str, *lines: int) -> None:
            self._now.update((path, line) for line in lines)

        setattr(builtins, _PROBE, ran)
        usual: Callable[..., Any] = SourceFileLoader.get_code

        def get_code(loader: Any, fullname: str) -> Any:
            path = self._order.here(loader.get_filename(fullname))
            lines = self._order.lines.get(path) if path is not None else None
            if not lines or path is None:
                return usual(loader, fullname)
            place = loader.get_filename(fullname)
            tree = ast.parse(loader.get_data(place))
            _watch(tree, path, frozenset(lines))
            return compile(ast.fix_missing_locations(tree), place, "exec", dont_inherit=True)

        SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]

    def take(self) -> list[tuple[str, int]]:
        """The lines that ran, sorted; forgotten then."""
        ran, self._now = sorted(self._now), set()
        return ran


def _watch(tree: ast.AST, path: str, lines: frozenset[int]) -> None:
    """Put the call before each statement that has one of ``lines`` outside of the statements in it."""
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                setattr(node, name, list(_watched(statements, path, lines)))


def _watched(statements: list[ast.stmt], path: str, lines: frozenset[int]) -> Iterable[ast.stmt]:
    for number, statement in enumerate(statements):
        own = sorted(lines.intersection(_own_lines(statement)))
        if own and not _must_be_first(statement, number):
            words = [ast.Constant(path), *map(ast.Constant, own)]
            call = ast.Expr(ast.Call(func=ast.Name(_PROBE, ast.Load()), args=list(words), keywords=[]))
            yield ast.copy_location(call, statement)
        yield statement


def _own_lines(statement: ast.stmt) -> Iterable[int]:
    """Return the lines from its first to its last, or to the first nested statement."""
    inner = getattr(statement, "body", None)
    end = getattr(statement, "end_lineno", None) or statement.lineno
    if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
        # A statement that begins in the same line has its own call as well.
        end = max(statement.lineno, inner[0].lineno - 1)
    return range(statement.lineno, end + 1)


def _must_be_first(statement: ast.stmt, number: int) -> bool:
    """A docstring, or an import from the future."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return True
    return number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
