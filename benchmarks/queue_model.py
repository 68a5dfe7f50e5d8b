"""What the merge queue's model costs: ``python -m benchmarks.queue_model [--entries 100] [--folded 10000]``.

Printed are the time of a decision in a queue of a hundred entries (median and longest, each the fastest of three), and the
time to fold the events of ten thousand entries, in a queue of at most a hundred entries and in one of at most a thousand.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.contracts.queue_receipt import Tip
from gatewright.queue import events as e
from gatewright.queue.commands import Command, Compose, Land, Test, commands
from gatewright.queue.decide import decide
from gatewright.queue.inputs import Create, Enqueue, Input, Landed, Tested, Tick
from gatewright.queue.state import Queue
from tests.queue.world import DIGEST, START, Truth, World, digest, entry

POLICY = QueuePolicy(batch_size=8, window=Window(start=4, most=16))
console = Console(highlight=False, width=120)


def milliseconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def timed_world(count: int) -> dict[str, list[float]]:
    """Milliseconds of each decision while a queue of ``count`` entries drains, one in ten of them bad, by kind of input."""
    runs = [f"run-{number:06}" for number in range(count)]
    world = World(POLICY, Truth(bad=frozenset(runs[5::10])))
    took: dict[str, list[float]] = defaultdict(list)

    def deliver(item: Input) -> None:
        took[type(item).__name__].append(
            min(milliseconds(lambda: decide(world.queue, item, POLICY, world.now)) for _ in range(3))
        )
        world.deliver(item)

    for number, run_id in enumerate(runs):
        world.entries[run_id] = entry(run_id, publisher=f"publisher-{number % 7}")
        deliver(Enqueue(world.entries[run_id]))
    while due := world.due():
        deliver(world.carry_out(due[0]))
        deliver(Tick())
    return took


def answer(queue: Queue, command: Command) -> Input:
    """What a gatekeeper finds where nothing is wrong, without trees."""
    match command:
        case Compose(position=number, entries=entries):
            commits = tuple(digest("commit", each.run_id) for each in entries)
            return e.PositionComposed(number=number, tree=digest("tree", number), commits=commits)
        case Test(number=number, tree=tree):
            return Tested(number, tree, queue.policy_sha256, "passed", (), DIGEST)
        case Land(position=number, after=commit):
            return Landed(number, commit)


def history_of(count: int, waiting: int) -> list[e.QueueEvent]:
    """The events of ``count`` entries, of which at most ``waiting`` are queued at a time."""
    base = Tip(commit=digest("commit"), tree=digest("tree"))
    history = list(decide(None, Create("repository", "repository", "main", base, DIGEST), POLICY, START))
    queue = e.fold(history)
    assert queue is not None
    entries = (entry(f"run-{number:06}") for number in range(count))
    while True:
        due = commands(queue, POLICY)
        following = next(entries, None) if len(queue.entries) < waiting or not due else None
        if following is None and not due:
            return history
        item: Input = Enqueue(following) if following is not None else answer(queue, due[0])
        made = decide(queue, item, POLICY, START)
        queue = e.fold(made, queue)
        assert queue is not None
        history.extend(made)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--entries", type=int, default=100)
    options.add_argument("--folded", type=int, default=10_000)
    chosen = options.parse_args()
    table = Table(
        "decision about", "number", "median, ms", "longest, ms", title=f"queue of {chosen.entries} entries (goal 5 ms)"
    )
    for kind, took in sorted(timed_world(chosen.entries).items()):
        table.add_row(kind, str(len(took)), f"{statistics.median(took):.3f}", f"{max(took):.3f}")
    console.print(table)
    for waiting in (100, 1000):
        history = history_of(chosen.folded, waiting)
        started = time.perf_counter()
        e.fold(history)
        took = time.perf_counter() - started
        console.print(f"{len(history)} events of {chosen.folded} entries, at most {waiting} waiting: {took:.2f} s (goal 2 s)")


if __name__ == "__main__":
    main()
