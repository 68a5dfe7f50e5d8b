"""Series of which ``make test`` plays a part, and the long series all the rest."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import pytest
from _pytest.mark import ParameterSet


def series(rows: Iterable[Hashable], *short: Hashable) -> list[ParameterSet]:
    """Every row for ``parametrize``, a tuple for several arguments; those that are not among ``short`` are `long`."""
    every = list(rows)
    if lost := set(short) - set(every):
        raise ValueError(f"not in this series: {lost}")
    return [_row(row, () if row in short else (pytest.mark.long,)) for row in every]


def lengths(short: object, whole: object) -> list[ParameterSet]:
    """How much of one series ``make test`` plays, and what the long series play of it: the same and more."""
    return [_row(short, (pytest.mark.short,)), _row(whole, (pytest.mark.long,))]


def _row(row: object, marks: tuple[pytest.MarkDecorator, ...]) -> ParameterSet:
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=marks)
