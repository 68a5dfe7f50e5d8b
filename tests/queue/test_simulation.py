"""A hundred changes with faults of every kind, by twenty seeds: nothing red lands, nothing good is lost."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable

import pytest

from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.queue import events as e
from gatewright.queue.state import Entry
from tests.queue.invariants import check_all, departures, landings
from tests.queue.world import Truth, World, entry, play, write

CHANGES, BAD, CONFLICTING, FLAKY, PUSHES = 100, 10, 15, 5, 3
SEEDS = range(20)
POLICY = QueuePolicy(batch_size=64, window=Window(start=4, most=8))


def name_of_its_own(run_id: str) -> str:
    return f"tests/{run_id}"


def simulate(seed: int, policy: QueuePolicy, spread: float = 0.0, test_name: Callable[[str], str] = name_of_its_own) -> World:
    """A world at rest after a hundred changes, which arrive within ``spread`` lengths of a test.

    A bad change fails its test in every tree. A flaky one fails one test, the first that it is part of. A conflicting one
    writes a path that an earlier one writes, too.
    """
    choose = random.Random(seed)  # noqa: S311 - the same world for the same seed
    names = [f"run-{number:05}" for number in range(CHANGES)]
    special = choose.sample(range(1, CHANGES), BAD + CONFLICTING + FLAKY)
    bad = frozenset(names[each] for each in special[:BAD])
    conflicting = set(special[BAD : BAD + CONFLICTING])
    flaky = {names[each]: 1 for each in special[BAD + CONFLICTING :]}
    entries: list[Entry] = []
    for number, name in enumerate(names):
        changes = [write(f"src/{name}.py", name)]
        if number in conflicting:
            changes.append(write(f"src/{names[choose.randrange(number)]}.py", name))
        entries.append(entry(name, *changes, publisher=f"publisher-{number % 7}"))
    world = World(policy, Truth(bad=bad, flaky=flaky, test_name=test_name))
    arrivals = sorted(((choose.uniform(0, spread), each) for each in entries), key=lambda each: each[0])
    pushes = [choose.uniform(0, 20) for _ in range(PUSHES)]
    play(world, choose, arrivals=arrivals if spread else [(0.0, each) for each in entries], pushes=pushes)
    return world


def check_figures(world: World) -> dict[str, int]:
    """What went wrong, all of which must be 0, after the invariants."""
    check_all(world)
    landed = {run_id for event in landings(world) for run_id in event.runs}
    left = {event.run_id: event for event in departures(world)}
    conflicts = {run_id for run_id, event in left.items() if event.code == "conflict_with_ahead"}
    red = {run_id for run_id, event in left.items() if event.red}
    assert landed | conflicts | red == world.entries.keys()
    own = {run_id for run_id in red if left[run_id].tests == (world.truth.test_name(run_id),)}
    return {
        "red positions landed": sum(world.is_red(event.after.tree) for event in landings(world)),
        "good changes lost": len(world.entries.keys() - landed - conflicts - world.truth.bad),
        "innocents dequeued": len(red - world.truth.bad),
        "wrong culprits": len(red - own),
    }


@pytest.mark.parametrize(
    ("spread", "test_name", "most"),
    [
        pytest.param(0.0, name_of_its_own, 40, id="at-once"),
        pytest.param(10.0, name_of_its_own, None, id="one-after-another"),
        pytest.param(0.0, lambda _run: "build", None, id="failures-without-names"),
    ],
)
def test_nothing_red_lands_and_nothing_good_is_lost(
    spread: float, test_name: Callable[[str], str], most: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    worlds = [simulate(seed, POLICY, spread, test_name) for seed in SEEDS]
    figures = [check_figures(world) for world in worlds]
    tests = [len(world.tests) for world in worlds]
    total = {name: sum(each[name] for each in figures) for name in figures[0]}
    flakes = sum(isinstance(event, e.FlakeRecorded) for world in worlds for event in world.history)
    with capsys.disabled():
        figures_of_tests = f"tests a hundred changes: {statistics.mean(tests):.1f}, at most {max(tests)}"
        print(f"\n{total}, {figures_of_tests}, flakes shown: {flakes}")  # noqa: T201 - these figures are what the test is for
    assert set(total.values()) == {0}
    assert most is None or max(tests) <= most
