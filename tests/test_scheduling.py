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


def test_a_process_that_came_in_place_of_another_is_given_work_once_it_has_collected(scheduling: SharedStacks) -> None:
    stub = Node()
    node = cast("WorkerController", stub)
    scheduling.workqueue["tests/a.py"] = {"tests/a.py::test_a": False}
    scheduling.assigned_work[node] = {}
    scheduling._reschedule(node)
    assert stub.sent == []
    scheduling.registered_collections[node] = ["tests/a.py::test_a"]
    scheduling._reschedule(node)
    assert stub.sent == [[0]]
