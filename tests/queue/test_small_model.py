"""Every outcome of up to four entries, in every order of results: the invariants hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.queue import events as e
from gatewright.queue.inputs import Input, PolicyMissing
from gatewright.queue.state import Entry
from tests.queue.invariants import check_all, landings, without_the_queue_nothing_changes
from tests.queue.world import Truth, World, entry, write
from tests.series import series

KINDS = ("good", "bad", "flaky", "hanging", "void")
RELATIONS = ("apart", "conflict", "together", "stacked")
RUNS = tuple(f"run-0000{number}" for number in range(1, 5))
FIRST = RUNS[0]


def entries_of(count: int, relation: str) -> list[Entry]:
    """Entries of which the last one is related to the first one."""
    made = [entry(run_id) for run_id in RUNS[: count - 1]]
    last = RUNS[count - 1]
    path, own = f"src/{FIRST}.py", write(f"src/{last}.py", last)
    related = {"conflict": (own, write(path, last)), "stacked": (own, write(path, last, before=FIRST))}
    return [*made, entry(last, *related.get(relation, (own,)))]


def truth_of(kinds: tuple[str, ...], relation: str) -> Truth:
    of = {kind: frozenset(run_id for run_id, each in zip(RUNS, kinds, strict=False) if each == kind) for kind in KINDS}
    together = frozenset({(FIRST, RUNS[len(kinds) - 1])} if relation == "together" else ())
    return Truth(bad=of["bad"], hanging=of["hanging"], void=of["void"], together=together, flaky=dict.fromkeys(of["flaky"], 1))


def outcomes(world: World, disturb: str) -> Iterator[World]:
    """Every world at rest that the orders of results lead to, with at most one disturbance at any moment."""
    known: set[str] = set()
    todo = [(world, disturb)]
    while todo:
        here, left = todo.pop()
        key = repr((here.queue, here.branch, here.truth.flaky, left))
        if key in known:
            continue
        known.add(key)
        due = here.due()
        for command in due:
            following = here.fork()
            answer = following.carry_out(command)
            following.deliver(answer)
            assert following.deliver(answer) == ()
            todo.append((following, left))
        if left:
            following = here.fork()
            following.deliver(disturbance(following, left))
            todo.append((following, ""))
        if not due:
            assert all(here.deliver(late) == () for late in tuple(here.done.values()))
            yield here


def disturbance(world: World, kind: str) -> Input:
    match kind:
        case "outside push":
            return world.push(write("outside", "outside"))
        case "outside push on a path":
            return world.push(write(f"src/{FIRST}.py", "outside"))
        case "abort":
            return e.EntryLeft(run_id=FIRST, code="aborted", by="publisher")
        case "move":
            return e.EntryMoved(run_id=RUNS[1], ahead_of=FIRST, by="person")
        case "no policy":
            return PolicyMissing()
        case _:
            return e.PolicyChanged(policy_sha256="b" * 64, window=1)


def explore(kinds: tuple[str, ...], relation: str, policy: QueuePolicy, disturb: str = "") -> int:
    world = World(policy, truth_of(kinds, relation))
    world.enqueue(*entries_of(len(kinds), relation))
    rests = 0
    for rest in outcomes(world, disturb):
        assert rest.queue.held is None
        check_all(rest)
        good = {run_id for run_id, kind in zip(RUNS, kinds, strict=False) if kind in {"good", "flaky"}}
        landed = {run_id for event in landings(rest) for run_id in event.runs}
        if relation == "apart" and disturb != "outside push on a path":
            gone = {run_id for run_id, code in rest.queue.ended.items() if code in {"aborted", "policy_changed"}}
            assert landed == good - gone
        refused = {run_id for run_id, code in rest.queue.ended.items() if code == "approval_void"}
        assert refused <= {run_id for run_id, kind in zip(RUNS, kinds, strict=False) if kind == "void"}
        rests += 1
    assert rests
    return rests


def policies(batch: int, window: int) -> Iterator[QueuePolicy]:
    for flaky in ("retest", "accept_successor"):
        yield QueuePolicy(batch_size=batch, window=Window(start=window, most=3), flaky=flaky)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("batch", "window"), [(1, 2), (2, 2)])
def test_invariants_hold_for_two_entries_in_every_order(relation: str, batch: int, window: int) -> None:
    for kinds, policy in itertools.product(itertools.product(KINDS, repeat=2), policies(batch, window)):
        explore(kinds, relation, policy)


DISTURBANCES = ("outside push", "outside push on a path", "abort", "move", "policy", "no policy")


@pytest.mark.parametrize("disturb", series(DISTURBANCES, "outside push", "abort"))
def test_invariants_hold_when_the_queue_is_disturbed_at_any_moment(disturb: str) -> None:
    for kinds in itertools.product(("good", "bad"), repeat=2):
        explore((*kinds, "good"), "apart", QueuePolicy(batch_size=2, window=Window(start=2, most=2)), disturb)


@pytest.mark.long
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("disturb", ["", *DISTURBANCES])
def test_invariants_hold_for_three_entries_in_every_order(relation: str, disturb: str) -> None:
    for kinds in itertools.product(KINDS, repeat=3):
        for batch, window in ((1, 2), (2, 2), (3, 1)):
            for policy in policies(batch, window):
                explore(kinds, relation, policy, disturb)


@pytest.mark.long
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("batch", "window"), [(2, 2), (4, 1), (1, 3)])
def test_invariants_hold_for_four_entries_in_every_order(relation: str, batch: int, window: int) -> None:
    for kinds in itertools.product(KINDS, repeat=4):
        explore(kinds, relation, QueuePolicy(batch_size=batch, window=Window(start=window, most=3)))


def test_the_queue_is_used_by_nothing_that_runs_without_it() -> None:
    without_the_queue_nothing_changes(World(QueuePolicy()))
