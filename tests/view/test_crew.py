"""The lanes and budgets of a run as people look at them: what the ledger says, and nothing that it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import Budget
from gatewright.run import events as e
from gatewright.view.budgets import budget_bars
from gatewright.view.crew import CrewLane, LaneState, crew_lanes
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_failed, make_fixed, make_success


def lanes(recorded: RecordedRun) -> dict[str, CrewLane]:
    payloads = [e.event_of(record) for record in recorded.records]
    gates = [payload.report for payload in payloads if isinstance(payload, e.GateJudged)]
    return {lane.name: lane for lane in crew_lanes(recorded.run, gates)}


def states(recorded: RecordedRun) -> dict[str, LaneState]:
    return {name: lane.state for name, lane in lanes(recorded).items()}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_run_has_a_crew_that_rests_after_its_end(name: str) -> None:
    recorded = MAKERS[name]()
    found, run = states(recorded), recorded.run
    assert {"Planner", "Builder", "Verifier", "Runtime QA", "Integrator", "Completion"} <= set(found)
    assert not run.ended or "at_work" not in found.values()


def test_the_crew_of_a_landed_run_names_its_work() -> None:
    recorded = make_success()
    found, run = lanes(recorded), recorded.run
    for name in ("Planner", "Builder", "Verifier", "Runtime QA", "Integrator"):
        assert found[name].state == "passed", name
    assert run.landed is not None
    assert run.landed.commit in found["Integrator"].words
    assert found["Operator"].state == "not_needed"
    assert (found["Builder"].authority, found["Verifier"].authority) == ("edit", "read_only")


def test_a_failed_run_shows_who_refused_and_who_left() -> None:
    found = states(make_failed())
    assert "refused" in found.values()
    assert found["Integrator"] == "left"


def test_advisory_lanes_are_optional_and_repair_work_shows_its_round() -> None:
    found = lanes(make_fixed())
    assert not found["Advisers"].required
    assert "round 2" in found["Builder"].words


def test_a_run_that_begins_waits_for_all_of_its_crew() -> None:
    run = RecordedRun()
    run.accept()
    found = states(run)
    assert {found[name] for name in ("Planner", "Builder", "Verifier", "Integrator")} == {"waiting"}


def test_a_bar_shows_usage_and_is_never_longer_than_full() -> None:
    run = make_success().run
    assert run.contract is not None
    tight = replace(run.contract, budget=Budget(wall_sec=0.001, tokens=1_000_000))
    now = datetime.fromisoformat(run.created_at) + timedelta(days=300)
    bars = {bar.name: bar for bar in budget_bars(replace(run, contract=tight), now)}
    assert (bars["Time"].percent, bars["Time"].limit) == (100, 0.001)
    assert bars["Tokens"].words.endswith("of 1,000,000 tokens")
    free = {bar.name: bar for bar in budget_bars(replace(run, contract=replace(run.contract, budget=None)), now)}
    assert free["Time"].words.endswith("no limit")
    assert free["Time"].percent == 0


def test_the_time_of_an_ended_run_does_not_go_on() -> None:
    run = make_success().run
    later = [budget_bars(run, datetime.now(UTC) + timedelta(days=days))[0] for days in (0, 900)]
    assert later[0] == later[1]
