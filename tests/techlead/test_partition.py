"""Groups of paths never overlap, cover the contract, hold about the same number of files, and are always the same."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewright import scope
from gatewright.services.techlead.partition import MAX_SPLITS, MAX_UNITS, Group, partition


def tree(**sizes: int) -> list[bytes]:
    """``a=2`` is ``a/f0.py`` and ``a/f1.py``; a double underscore is a slash."""
    return [f"{name.replace('__', '/')}/f{n}.py".encode() for name, size in sizes.items() for n in range(size)]


def paths(groups: tuple[Group, ...]) -> list[tuple[str, ...]]:
    return [group.paths for group in groups]


def test_equal_directories_are_one_group_each() -> None:
    names = [f"pkg{number:02}" for number in range(16)]
    files = [f"{name}/f{n}.py".encode() for name in names for n in range(5)]
    assert paths(partition(files, names, 16)) == [(name,) for name in names]
    assert [group.size for group in partition(files, names, 8)] == [10] * 8


def test_one_directory_is_split_into_its_children() -> None:
    files = tree(src__a=3, src__b=3, src__c=3, src__d=3)
    assert paths(partition(files, ["src"], 2)) == [("src/a", "src/c"), ("src/b", "src/d")]


def test_a_nested_single_directory_is_opened_until_there_is_something_to_split() -> None:
    assert paths(partition(tree(src__pkg__a=2, src__pkg__b=2), ["src"], 2)) == [("src/pkg/a",), ("src/pkg/b",)]


def test_a_large_directory_beside_small_ones_is_split_for_balance() -> None:
    groups = partition(tree(big=30, small=2), ["big", "small"], 2)
    assert max(group.size for group in groups) <= 20


def test_there_are_fewer_groups_when_there_are_fewer_files() -> None:
    assert paths(partition([b"src/a.py", b"src/b.py"], ["src"], 8)) == [("src/a.py",), ("src/b.py",)]
    assert paths(partition([b"a.py"], ["a.py"], 4)) == [("a.py",)]


def test_paths_inside_other_paths_are_dropped() -> None:
    assert paths(partition(tree(src=2), ["src", "src/f0.py"], 2)) == [("src/f0.py",), ("src/f1.py",)]
    assert paths(partition(tree(src=2, src2=1), ["src", "src2"], 2)) == [("src",), ("src2",)]


def test_paths_without_a_file_go_along_with_the_smallest_group() -> None:
    groups = partition(tree(a=4, b=3), ["a", "b", "new/module.py"], 2)
    assert paths(groups) == [("a",), ("b", "new/module.py")]
    assert paths(partition([], ["new", "newer"], 4)) == [("new", "newer")]


def test_manifests_lock_files_and_migrations_form_the_last_group() -> None:
    files = [*tree(src=8, app__migrations=3), b"pyproject.toml", b"requirements-dev.txt"]
    groups = partition(files, ["src", "app/migrations", "pyproject.toml", "requirements-dev.txt"], 3)
    assert groups[-1] == Group(("app/migrations", "pyproject.toml", "requirements-dev.txt"), 5, terminal=True)
    assert [group.terminal for group in groups] == [False, False, True]


def test_only_terminal_paths_are_one_group() -> None:
    assert partition([b"go.mod", b"go.sum"], ["go.mod", "go.sum"], 4) == (Group(("go.mod", "go.sum"), 2, terminal=True),)


@pytest.mark.parametrize("name", [b"a*.py", b"[id].tsx", b"\xff.py", b"x\\y", b"a\nb"])
def test_a_directory_with_a_name_that_no_contract_may_hold_stays_whole(name: bytes) -> None:
    assert paths(partition([b"src/ok.py", b"src/" + name], ["src"], 2)) == [("src",)]


def test_a_huge_flat_directory_is_not_turned_into_a_huge_plan() -> None:
    files = [f"src/f{n}.py".encode() for n in range(MAX_UNITS + 1)]
    assert paths(partition(files, ["src"], 2)) == [("src",)]


TREES = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "d-e", "d.e", "d0", "f.py", "go.mod"]), min_size=1, max_size=4).map("/".join),
    max_size=40,
    unique=True,
)


def as_files(names: list[str]) -> list[bytes]:
    """Without names that are a file and a directory at once: no tree holds those."""
    return [name.encode() for name in names if not any(other.startswith(f"{name}/") for other in names)]


@given(TREES, st.lists(st.sampled_from(["a", "b", "a/b", "d-e", "d.e", "c/f.py", "nowhere"]), min_size=1), st.integers(2, 8))
def test_no_file_is_in_two_groups_and_none_is_lost(names: list[str], allowed: list[str], count: int) -> None:
    files = as_files(names)
    groups = partition(files, allowed, count)
    assert 1 <= len(groups) <= count
    assert scope.disjoint([group.paths for group in groups])
    for file in files:
        holders = [group for group in groups if scope.covers(group.paths, file)]
        assert len(holders) == scope.covers(allowed, file)
    for group in groups:
        assert all(scope.covers(allowed, path.encode()) for path in group.paths)
        assert group.size == sum(scope.covers(group.paths, file) for file in files)


@given(TREES, st.integers(2, 6), st.randoms(use_true_random=False))
def test_the_order_of_files_and_paths_makes_no_difference(names: list[str], count: int, luck: random.Random) -> None:
    files, allowed = as_files(names), ["a", "b", "c", "d-e", "d.e", "d0"]
    expected = partition(files, allowed, count)
    luck.shuffle(files)
    luck.shuffle(allowed)
    assert partition(files, allowed, count) == expected


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(2, 5))
def test_no_group_holds_much_more_than_its_share(sizes: list[int], count: int) -> None:
    files = [f"src/d{number}/f{n}.py".encode() for number, size in enumerate(sizes) for n in range(size)]
    groups = partition(files, ["src"], count)
    assert len(groups) == min(count, len(files))
    assert max(group.size for group in groups) <= 1.25 * len(files) / len(groups) + 1
    assert len(sizes) < MAX_SPLITS
