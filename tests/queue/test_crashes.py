"""A gatekeeper is killed, or two of them work on one queue: what another one finds in the stream is enough."""

from __future__ import annotations

import random

import pytest

from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.queue import events as e
from gatewright.queue.commands import commands
from gatewright.queue.decide import decide
from gatewright.queue.inputs import Enqueue, Input, Tick
from gatewright.queue.state import Queue
from tests.queue.invariants import check_all, landings
from tests.queue.world import Truth, World, entry, write

POLICY = QueuePolicy(batch_size=2, window=Window(start=2, most=3))
RUNS = tuple(f"run-{number:05}" for number in range(8))


def busy_world(seed: int) -> World:
    choose = random.Random(seed)  # noqa: S311 - the same world for the same seed
    bad, flaky, hanging = choose.sample(RUNS, 3)
    world = World(POLICY, Truth(bad=frozenset({bad}), flaky={flaky: 1}, hanging=frozenset({hanging})))
    own = [entry(run_id) for run_id in RUNS[:-1]]
    world.enqueue(*own, entry(RUNS[-1], write(f"src/{RUNS[0]}.py", "conflict")))
    return world


def landed(world: World) -> set[str]:
    return {run_id for event in landings(world) for run_id in event.runs}


@pytest.mark.parametrize("seed", range(4))
def test_a_queue_restored_at_any_transition_reaches_the_same_end(seed: int) -> None:
    world = busy_world(seed)
    while due := world.due():
        restored = e.fold(world.history)
        assert restored == world.queue
        assert commands(world.queue, POLICY) == commands(restored, POLICY)
        world.queue = restored
        world.deliver(world.carry_out(due[-1]))
    check_all(world)


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_between_any_two_events_loses_nothing(seed: int) -> None:
    """Even where only a part of an answer's events was stored: all that was due is answered again."""
    world = busy_world(seed)
    expected = landed(world.fork().run())
    while due := world.due():
        answer = world.carry_out(due[0])
        before = world.fork()
        made = world.deliver(answer)
        for stored in range(len(made) + 1):
            killed = before.fork()
            killed.history.extend(made[:stored])
            killed.receipts = world.receipts
            queue = e.fold(made[:stored], before.queue)
            assert queue is not None
            killed.queue = queue
            killed.deliver(Tick())
            for command in commands(killed.queue, POLICY):
                killed.deliver(killed.carry_out(command))
            killed.run()
            check_all(killed)
            assert landed(killed) == expected


class Stream:
    """A stream that takes events only from a writer that has read its end."""

    def __init__(self) -> None:
        self.messages: list[tuple[e.QueueEvent, ...]] = []

    def append(self, made: tuple[e.QueueEvent, ...], read: int) -> bool:
        if read != len(self.messages):
            return False
        self.messages.append(made)
        return True

    def queue(self) -> Queue:
        folded = e.fold(event for message in self.messages for event in message)
        assert folded is not None
        return folded


def test_two_gatekeepers_never_both_append_the_same_message() -> None:
    """Invariant 4: the one that comes late reads again, and its input does not count any more."""
    world = World(POLICY)
    stream = Stream()
    assert stream.append(tuple(world.history), 0)
    inputs: list[Input] = [Enqueue(entry(run_id)) for run_id in RUNS]
    world.entries = {each.entry.run_id: each.entry for each in inputs if isinstance(each, Enqueue)}
    while inputs:
        item = inputs.pop(0)
        read, queue = len(stream.messages), stream.queue()
        first, second = (decide(queue, item, POLICY, world.now) for _ in range(2))
        assert first == second
        assert stream.append(first, read)
        assert not stream.append(second, read)
        assert decide(stream.queue(), item, POLICY, world.now) == ()
        world.queue = stream.queue()
        inputs.extend(world.carry_out(command) for command in world.due())
    assert world.queue.ended.keys() == set(RUNS)
