"""Lines that are asked about are told when they run, whatever kind of statement they stand in, and nothing else changes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping

import pytest

from gatewright.ecosystems.python.reporter.tracing import _PROBE, _watch

SOURCE = '''"""Said."""
from __future__ import annotations

LIMIT = 3


def price(number, rate=(
    2 + 1
)):
    """Doubles."""
    if number < LIMIT:
        return number * 2
    elif number == LIMIT:
        total = (
            number
            + rate
        )
    else:
        total = 0
    for each in range(number):
        total += each
    try:
        return total // number
    except ZeroDivisionError:
        return -1


class Shop:
    """Sells."""

    def sell(self): return price(1)
'''


def ran(lines: set[int], monkeypatch: pytest.MonkeyPatch) -> tuple[Mapping[str, object], list[int]]:
    """The module, watched, and the lines that run, as they do."""
    told: list[int] = []
    monkeypatch.setattr(builtins, _PROBE, lambda _path, *numbers: told.extend(numbers), raising=False)
    tree = ast.parse(SOURCE)
    _watch(tree, "shop.py", frozenset(lines))
    names: dict[str, object] = {"__name__": "shop"}
    exec(compile(ast.fix_missing_locations(tree), "shop.py", "exec", dont_inherit=True), names)  # noqa: S102 - the text above
    return names, told


def test_each_line_is_recorded_when_its_statement_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    names, told = ran(set(range(1, 40)), monkeypatch)
    assert {4, 7, 8, 9} <= set(told), "while the module is loaded"
    price = names["price"]
    assert callable(price)
    told.clear()
    assert price(1) == 2
    assert told == [11, 12]
    told.clear()
    assert price(3) == 3
    assert set(told) == {11, 13, 14, 15, 16, 17, 20, 21, 22, 23}
    told.clear()
    assert price(4) == 1
    assert {18, 19} & set(told) == {19}


def test_what_people_and_tools_see_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    names, _ = ran(set(range(1, 40)), monkeypatch)
    assert names["__doc__"] == "Said."
    assert getattr(names["price"], "__doc__", None) == "Doubles."
    assert getattr(names["Shop"], "__doc__", None) == "Sells."


def test_lines_that_are_not_requested_are_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    names, told = ran({12}, monkeypatch)
    price = names["price"]
    assert callable(price)
    price(10)
    assert told == []
    price(1)
    assert told == [12]
