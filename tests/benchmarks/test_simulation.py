"""The product's orchestrator on a simulated bus: whatever dies, no run is lost and none is done twice; and it would be seen."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.simulation.world import Outcome, Scenario, World
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


def played(scenario: Scenario) -> Outcome:
    return asyncio.run(World(scenario).play())


def test_no_run_is_lost_or_doubled_where_every_process_dies_often() -> None:
    outcome = played(DEADLY)
    assert (outcome.landed, outcome.failed, outcome.lost, outcome.doubled) == (20, 0, 0, 0)
    assert min(outcome.deaths.values()) > 3
    assert outcome.repeated > 0


def test_the_same_seed_is_the_same_world() -> None:
    assert played(DEADLY) == played(DEADLY)


def test_tasks_of_small_runs_do_not_stand_behind_those_of_large_ones() -> None:
    waits = played(DEADLY).waits
    assert sum(waits["small"]) / len(waits["small"]) < sum(waits["large"]) / len(waits["large"])


def test_a_product_that_takes_up_no_run_is_seen_to_lose_some(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave(*_: object) -> bool:
        return False

    monkeypatch.setattr(Orchestrator, "take_up", leave)
    assert played(DEADLY).lost > 0
