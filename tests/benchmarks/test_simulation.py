"""The product's orchestrator on a simulated bus: whatever dies, no run is lost and none is done twice; and it would be seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from msgspec.structs import replace as altered

from benchmarks.simulation.world import Outcome, Scenario, World
from gatewright.bus.port import Message
from gatewright.contracts import Transition
from gatewright.ledger.entry_validation import End, next_link
from gatewright.services.gatekeeper.orchestrator import Orchestrator

DEADLY = Scenario(
    runs=20,
    workers=10,
    arrivals=4.0,
    gatekeepers=3,
    others=6,
    worker_dies=0.15,
    answer_doubled=0.2,
    gatekeeper_dies=0.15,
    large=8,
    large_every=10,
)

BUSY = replace(
    DEADLY, runs=120, workers=10, others=200, gatekeepers=2, gatekeeper_dies=0.0, large=24, large_every=12, flood=0.25
)


def played(scenario: Scenario) -> Outcome:
    return asyncio.run(World(scenario).play())


def test_no_run_is_lost_or_doubled_where_every_process_dies_often() -> None:
    outcome = played(DEADLY)
    assert (outcome.landed, outcome.failed, outcome.lost, outcome.doubled) == (20, 0, 0, 0)
    assert min(outcome.deaths.values()) > 3
    assert outcome.repeated > 0


def test_the_same_seed_is_the_same_world() -> None:
    assert played(DEADLY) == played(DEADLY)


def test_reading_back_fewer_runs_changes_nothing_else() -> None:
    everyone, few = played(DEADLY), played(replace(DEADLY, read_every=5))
    assert everyone.read_back > few.read_back > 0
    assert replace(few, read_back=everyone.read_back) == everyone


def test_what_is_not_read_as_it_was_written_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(message: Message, run_id: str, end: End) -> Transition | None:
        found = next_link(message, run_id, end)
        return None if found is None else altered(found, cause=altered(found.cause, message_id="another"))

    monkeypatch.setattr("gatewright.ledger.store.next_link", other)
    with pytest.raises(AssertionError, match="is not read as it was written"):
        played(DEADLY)


def test_of_a_run_that_is_over_nothing_is_remembered() -> None:
    world = World(DEADLY)
    asyncio.run(world.play())
    assert world.bus.published > 100
    assert (world.bus.ledger, world.readings.positions, world.orders, world.answers) == ({}, {}, {}, {})
    assert not any(gatekeeper.orchestrator.ledger.baselines() for gatekeeper in world.idle)


def test_tasks_of_small_runs_do_not_stand_behind_those_of_large_ones() -> None:
    waits = played(DEADLY).waits
    small, others = waits["small"], waits["other parts of large"]
    assert sum(small) / len(small) < sum(others) / len(others)


def test_under_load_no_class_starves_and_small_runs_come_first() -> None:
    outcome = played(BUSY)
    assert (outcome.landed, outcome.lost, outcome.doubled) == (120, 0, 0)
    assert outcome.worked / outcome.offered > 0.7  # the first runs have to be planned before there is work
    means = {kind: sum(waits) / len(waits) for kind, waits in outcome.waits.items()}
    assert means["small"] < means["other parts of large"]
    assert means["small"] < means["flooding repository"]


@pytest.mark.parametrize("partitions", [1, 3])
def test_any_number_of_ledger_streams_loses_and_duplicates_no_run(partitions: int) -> None:
    outcome = played(replace(DEADLY, partitions=partitions))
    assert (outcome.landed, outcome.lost, outcome.doubled) == (20, 0, 0)
    assert outcome == played(replace(DEADLY, partitions=1))


def test_a_product_that_takes_up_no_run_is_seen_to_lose_some(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(*_: object) -> bool:
        return False

    monkeypatch.setattr(Orchestrator, "take_up", leave)
    assert played(DEADLY).lost > 0
