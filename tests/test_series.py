"""What `make test` plays of a table of cases, and CI of the long series."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection import ci_left_out, further_cases


class Case(NamedTuple):
    """As much of a test's case as the choice looks at."""

    nodeid: str
    marks: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None


@given(count=st.integers(0, 60), most=st.integers(2, 12))
def test_a_sample_has_the_requested_size_and_both_ends(count: int, most: int) -> None:
    cases = [Case(f"tests/test_a.py::test_b[{number}]") for number in range(count)]
    others = [Case(f"tests/test_a.py::test_c[{number}]") for number in range(2)]
    left_out = cast("set[Case]", further_cases(cast("list[pytest.Item]", [*cases, *others]), most))
    played = [case for case in cases if case not in left_out]
    assert len(played) == min(count, most)
    assert left_out.isdisjoint([*others, *cases[:1], *cases[-1:]])


def test_ci_plays_one_long_test_of_each_kind_and_all_with_containers() -> None:
    cases = [
        Case(f"tests/{file}.py::test_{name}[{number}]", marks)
        for file in ("faults/test_a", "e2e/test_b")
        for name, marks in (("quick", ()), ("one", ("long",)), ("other", ("long",)), ("boxed", ("long", "compose")))
        for number in range(9)
    ]
    left_out = cast("set[Case]", ci_left_out(cast("list[pytest.Item]", cases), 3))
    played = [case.nodeid.removeprefix("tests/") for case in cases if case not in left_out and "compose" not in case.marks]
    assert played == [
        *(f"faults/test_a.py::test_quick[{number}]" for number in (0, 4, 8)),
        "faults/test_a.py::test_one[0]",
        "faults/test_a.py::test_other[0]",
        *(f"e2e/test_b.py::test_quick[{number}]" for number in (0, 4, 8)),
        "e2e/test_b.py::test_one[0]",
    ]
    assert not any("compose" in case.marks for case in left_out)
