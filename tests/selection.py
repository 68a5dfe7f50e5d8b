"""Which of the collected tests are played: of long tables some cases, and in CI one test of each long series. Pure.

CI plays what `make test` plays, slow tests, what needs containers, and the same long tests at every commit. So a commit is
judged by what it changed, and not by which part of the long series its turn brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

#: Functions of which one case takes long, one per line; `.ci/slow_tests.py` makes the list.
SLOW_TESTS = Path(__file__).parent / "slow_tests.txt"

#: Each function of these breaks the system in another way; elsewhere the long tests of a file are of one kind.
FAULTS = "tests/faults/"


def ci_left_out(items: Iterable[pytest.Item], most: int) -> set[pytest.Item]:
    """What CI leaves out: cases beyond ``most`` of a table, and of the long tests all but one of each kind.

    A kind is a file of tests, and in ``FAULTS`` a function. Tests that need containers are always played.
    """
    every = list(items)
    ordinary = [item for item in every if not _is(item, "long") and not _is(item, "compose")]
    long = [item for item in every if _is(item, "long") and not _is(item, "compose")]
    return further_cases(ordinary, most) | (set(long) - set(_first_of_each(_kind, long)))


def slow_tests(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """What `make test` leaves out besides long tests."""
    listed = frozenset(SLOW_TESTS.read_text("utf-8").split())
    return {item for item in items if _function(item) in listed}


def _is(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None


def _kind(item: pytest.Item) -> str:
    return _function(item) if item.nodeid.startswith(FAULTS) else item.nodeid.partition("::")[0]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _first_of_each(kind: Callable[[pytest.Item], str], items: Iterable[pytest.Item]) -> Iterable[pytest.Item]:
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(kind(item), item)
    return first.values()


def further_cases(items: Iterable[pytest.Item], most: int) -> set[pytest.Item]:
    """What is left out of tests with more than ``most`` cases: all but the first, the last, and others evenly between them.

    Of tests with the mark ``every_case`` nothing is left out.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in (each for each in items if not _is(each, "every_case")):
        cases.setdefault(_function(item), []).append(item)
    left_out: set[pytest.Item] = set()
    for each in cases.values():
        if len(each) > most:
            played = {round(number * (len(each) - 1) / (most - 1)) for number in range(most)}
            left_out.update(item for number, item in enumerate(each) if number not in played)
    return left_out
