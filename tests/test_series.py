"""What `make test` plays of a table of cases."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import further_cases


class Case(NamedTuple):
    """As much of a test's case as the choice looks at."""

    nodeid: str


@given(count=st.integers(0, 60), most=st.integers(2, 12))
def test_of_many_cases_as_many_as_wanted_are_played_and_the_ends_are_among_them(count: int, most: int) -> None:
    cases = [Case(f"tests/test_a.py::test_b[{number}]") for number in range(count)]
    others = [Case(f"tests/test_a.py::test_c[{number}]") for number in range(2)]
    left_out = cast("set[Case]", further_cases(cast("list[pytest.Item]", [*cases, *others]), most))
    played = [case for case in cases if case not in left_out]
    assert len(played) == min(count, most)
    assert left_out.isdisjoint([*others, *cases[:1], *cases[-1:]])
