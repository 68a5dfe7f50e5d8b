"""Files that share what is dear to start are played by one process; one that is still collecting is given nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from xdist.workermanage import WorkerController

from tests.scheduling import SharedStacks


class Node:
    """As much of a process as the distribution of work uses."""

    shutting_down = False

    def __init__(self) -> None:
        self.sent: list[list[int]] = []

    def send_runtest_some(self, tests: list[int]) -> None:
        self.sent.append(tests)


@pytest.fixture
def scheduling() -> SharedStacks:
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=False), getvalue=lambda _name: ["popen"] * 2)
    return SharedStacks(cast("pytest.Config", config))


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/e2e/test_main_job.py::test_a[b]", "tests/e2e"),
        ("tests/e2e/test_mutants.py::test_a", "tests/e2e/test_mutants.py"),
        ("tests/compose/test_chart.py::test_a", "tests/compose"),
        ("tests/git/access/test_a.py::test_a[x::y]", "tests/git/access/test_a.py"),
    ],
)
def test_what_shares_a_stack_is_played_by_one_process(scheduling: SharedStacks, test: str, scope: str) -> None:
    assert scheduling._split_scope(test) == scope


def test_a_replacement_process_receives_work_once_it_has_collected(scheduling: SharedStacks) -> None:
    stub = Node()
    node = cast("WorkerController", stub)
    scheduling.workqueue["tests/a.py"] = {"tests/a.py::test_a": False}
    scheduling.assigned_work[node] = {}
    scheduling._reschedule(node)
    assert stub.sent == []
    scheduling.registered_collections[node] = ["tests/a.py::test_a"]
    scheduling._reschedule(node)
    assert stub.sent == [[0]]


def test_a_test_that_ended_its_process_is_not_played_again(scheduling: SharedStacks) -> None:
    stubs = Node(), Node()
    ended, other = (cast("WorkerController", stub) for stub in stubs)
    tests = ["tests/a.py::test_over", "tests/a.py::test_hangs", "tests/a.py::test_next"]
    for node in (ended, other):
        scheduling.registered_collections[node] = tests
        scheduling.assigned_work[node] = {}
    scheduling.assigned_work[ended] = {"tests/a.py": dict(zip(tests, (True, False, False), strict=True))}
    assert scheduling.remove_node(ended) == "tests/a.py::test_hangs"
    assert stubs[1].sent == [[2]]
    assert scheduling.assigned_work == {other: {"tests/a.py": dict(zip(tests, (True, True, False), strict=True))}}


def test_files_that_an_ended_process_has_played_are_not_handed_out_again(scheduling: SharedStacks) -> None:
    """A process that is given no test never asks for the next file, and the whole run would wait for it."""
    stubs = Node(), Node()
    ended, other = (cast("WorkerController", stub) for stub in stubs)
    tests = ["tests/a.py::test_over", "tests/b.py::test_hangs", "tests/b.py::test_next"]
    for node in (ended, other):
        scheduling.registered_collections[node] = tests
        scheduling.assigned_work[node] = {}
    scheduling.assigned_work[ended] = {"tests/a.py": {tests[0]: True}, "tests/b.py": {tests[1]: False, tests[2]: False}}
    assert scheduling.remove_node(ended) == tests[1]
    assert stubs[1].sent == [[2]]
    assert not scheduling.workqueue


def test_the_last_test_of_a_process_is_named_if_it_ended_it(scheduling: SharedStacks) -> None:
    node = cast("WorkerController", Node())
    scheduling.assigned_work[node] = {"tests/a.py": {"tests/a.py::test_hangs": False}}
    assert scheduling.remove_node(node) == "tests/a.py::test_hangs"
    assert not scheduling.workqueue


def test_a_process_that_has_played_everything_ended_with_no_test(scheduling: SharedStacks) -> None:
    node = cast("WorkerController", Node())
    scheduling.assigned_work[node] = {"tests/a.py": {"tests/a.py::test_over": True}}
    assert scheduling.remove_node(node) is None
