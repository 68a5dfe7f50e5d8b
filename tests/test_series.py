"""What `make test` plays of a table of cases, and CI of the long series."""

from __future__ import annotations

from typing import NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selection import Share, beyond_share, further_cases


class Case(NamedTuple):
    """As much of a test's case as the choice looks at."""

    nodeid: str
    marks: tuple[str, ...] = ()

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


@given(count=st.integers(0, 60), most=st.integers(2, 12))
def test_of_many_cases_as_many_as_wanted_are_played_and_the_ends_are_among_them(count: int, most: int) -> None:
    cases = [Case(f"tests/test_a.py::test_b[{number}]") for number in range(count)]
    others = [Case(f"tests/test_a.py::test_c[{number}]") for number in range(2)]
    left_out = cast("set[Case]", further_cases(cast("list[pytest.Item]", [*cases, *others]), most))
    played = [case for case in cases if case not in left_out]
    assert len(played) == min(count, most)
    assert left_out.isdisjoint([*others, *cases[:1], *cases[-1:]])


def test_as_many_commits_as_there_are_shares_play_every_test_in_full() -> None:
    marked = [(), ("long",), ("short",), ("long", "compose")]
    cases = [
        Case(f"tests/test_{file}.py::test_{'_'.join(marks)}[{number}]", marks)
        for file in range(40)
        for marks in marked
        for number in range(9)
    ]
    shares = [Share(number, 4) for number in range(1, 5)]
    left_out = [cast("set[Case]", beyond_share(cast("list[pytest.Item]", cases), share, 3)) for share in shares]
    by_marks = {marks: {case for case in cases if case.marks == marks} for marks in marked}
    assert {case.marks for case in set.intersection(*left_out)} == {("short",)}
    assert all(sum(case not in each for each in left_out) == 1 for case in by_marks["long",])
    assert all(by_marks["short",] & each != by_marks["short",] for each in left_out)
    assert all(len(by_marks[()] - each) > len(by_marks[()]) / 3 for each in left_out)
    assert all(by_marks["long", "compose"].isdisjoint(each) for each in left_out)


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "a/b", "1/4/4"])
def test_a_share_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="there is no share"):
        Share.read(text)
