"""The table of goals says what was reached, and what was not measured."""

from __future__ import annotations

import importlib.util
import io

import pytest
from rich.console import Console

from benchmarks import goals


def shown(found: dict[str, float]) -> list[str]:
    text = io.StringIO()
    goals.show_goals(found, Console(file=text, width=160))
    return text.getvalue().splitlines()


def row(lines: list[str], figure: str) -> str:
    (found,) = [line for line in lines if f" {figure} " in line]
    return found


def test_upper_and_lower_bounds_are_distinguished() -> None:
    lines = shown({goals.SMALL: 1.5, goals.COLD: 1.01, goals.RATE: 29.9, goals.WAITING: 98.0})
    assert [("not reached" in row(lines, figure)) for figure in (goals.SMALL, goals.COLD, goals.RATE, goals.WAITING)] == [
        False,
        True,
        True,
        False,
    ]


def test_an_unmeasured_figure_keeps_its_row_and_names_its_program() -> None:
    lines = shown({})
    assert all(
        "not measured" in row(lines, goal.figure) and f"benchmarks.{goal.program}" in row(lines, goal.figure)
        for goal in goals.GOALS
    )


@pytest.mark.parametrize("program", sorted({goal.program for goal in goals.GOALS}))
def test_the_programs_that_are_named_are_there(program: str) -> None:
    assert importlib.util.find_spec(f"benchmarks.{program}") is not None


def test_one_figure_has_one_goal() -> None:
    figures = [goal.figure for goal in goals.GOALS]
    assert len(figures) == len(set(figures))
