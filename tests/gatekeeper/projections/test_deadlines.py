"""The moments that runs' own events set, read off the messages of the ledger."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from gatewright.contracts.vocabulary import Budget
from gatewright.rules.summons import GRACE
from gatewright.services.gatekeeper.projections.deadlines import AGAIN, Deadlines
from tests.gatekeeper.budgeted_run import BudgetedRun
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script

START = NOW.timestamp()


def watched(world: BudgetedRun) -> Deadlines:
    """What a gatekeeper knows that has just read the ledger."""
    deadlines = Deadlines()
    for transition in world.transitions:
        deadlines.saw(make_entry(transition))
    return deadlines


@pytest.mark.parametrize("from_contract", [False, True])
@pytest.mark.parametrize("state", ["S0", "S1", "S2", "S4"])
def test_an_open_run_is_due_when_its_wall_clock_has_run_out(state: str, from_contract: bool) -> None:
    if from_contract and state == "S0":
        state = "S1"
    world = BudgetedRun(Script(from_contract=from_contract), budget=Budget(wall_sec=100))
    world.deliver(world.under_way.pop(0))
    world.deliver_until(state)
    deadlines = watched(world)
    assert deadlines.due(START + 99.9) == ()
    assert deadlines.due(START + 100.1) == (RUN_ID,)


def test_an_overdue_run_is_reported_once_until_it_is_checked() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    deadlines = watched(world)
    assert deadlines.due(START + 101) == (RUN_ID,)
    assert deadlines.due(START + 101) == ()
    deadlines.looked(RUN_ID, START + 101)
    assert deadlines.due(START + 101.5) == ()
    assert deadlines.due(START + 101 + AGAIN) == (RUN_ID,)


def test_what_happens_meanwhile_does_not_put_a_moment_off() -> None:
    world = BudgetedRun(Script(shards=3), budget=Budget(wall_sec=100))
    world.deliver_until("S3")
    assert watched(world).due(START + 100.1) == (RUN_ID,)


def test_a_run_that_has_ended_has_no_moment_to_come() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_all()
    deadlines = watched(world)
    assert deadlines.due(START + 1e9) == ()
    assert len(deadlines) == 0


def test_a_run_without_a_budget_has_none_either() -> None:
    world = BudgetedRun(Script())
    world.deliver_until("S2")
    assert watched(world).due(START + 1e9) == ()


def test_the_end_of_a_back_off_is_due() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=1), back_off=30)
    world.deliver_until("S5", attempt=2)
    ordered = datetime.fromisoformat(world.opened.fix_ordered_at).timestamp()
    deadlines = watched(world)
    assert deadlines.due(ordered + 29.9) == ()
    assert deadlines.due(ordered + 30.1) == (RUN_ID,)


def test_a_back_off_that_is_over_is_not_due_again() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=1), back_off=30)
    world.deliver_until("S5", attempt=2)
    world.at(world.last_moment.replace(year=2027))
    assert world.state == "S2"
    assert watched(world).due(START + 1e9) == ()


def test_a_foreign_message_in_the_ledger_is_passed_over() -> None:
    deadlines = Deadlines()
    data = b'{"number": 1, "events": [{"event_type": "run_accepted", "ts": "yesterday", "payload": {}}]}'
    deadlines.saw(make_entry(data, RUN_ID))
    assert deadlines.due(START + 1e12) == ()


def test_a_consensus_is_read_and_the_wall_clock_goes_on() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    deadlines = watched(world)
    asked = {"request": {"request_id": "request-1", "expires_at": NOW.isoformat()}}
    decided = {"request_id": "request-1", "verdict": "vote", "consensus": {"outcome": "approved"}}
    for state, event, payload in (("AWAITING_APPROVAL", "approval_requested", asked), ("S4", "approval_decided", decided)):
        events = [
            {"event_type": event, "ts": NOW.isoformat(), "payload": payload},
            {"event_type": "state_entered", "ts": NOW.isoformat(), "payload": {"state": state}},
        ]
        deadlines.saw(make_entry(json.dumps({"number": 9, "events": events}).encode(), RUN_ID))
    assert deadlines.due(START + 99) == ()
    assert deadlines.due(START + 100.1) == (RUN_ID,)


@pytest.mark.parametrize("verdict", ["comment", "delegate"])
def test_what_is_no_answer_leaves_the_time_for_one_as_it_was(verdict: str) -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=1e6))
    world.deliver_until("S2")
    deadlines = watched(world)
    asked = {"request": {"request_id": "request-1", "expires_at": NOW.isoformat()}}
    told = (("approval_requested", asked), ("state_entered", {"state": "AWAITING_APPROVAL"}))
    said = (("approval_decided", {"request_id": "request-1", "verdict": verdict}),)
    for number, payloads in enumerate((told, said), 9):
        events = [{"event_type": name, "ts": NOW.isoformat(), "payload": payload} for name, payload in payloads]
        deadlines.saw(make_entry(json.dumps({"number": number, "events": events}).encode(), RUN_ID))
    assert deadlines.due(NOW.timestamp() + 1) == (RUN_ID,)


def test_waiting_costs_no_memory() -> None:
    """A run that reports a thousand times stands in the queue once."""
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    deadlines = watched(world)
    entry = make_entry(world.transitions[-1])
    for _ in range(1000):
        deadlines.saw(entry)
    assert len(deadlines._queue) <= 2


def test_runs_that_ended_before_their_time_leave_nothing_behind() -> None:
    deadlines = Deadlines()
    worlds = [BudgetedRun(Script(), budget=Budget(wall_sec=seconds)) for seconds in range(100, 1100, 100)]
    for world in worlds:
        world.deliver_until("S2")
    for number in range(1000):
        deadlines.saw(make_entry(worlds[number % len(worlds)].transitions[0], f"run-{number:010}"))
        deadlines.forget(f"run-{number:010}")
    assert len(deadlines) == 0
    assert len(deadlines._queue) <= 100


def test_the_time_for_an_answer_of_the_critic_is_due() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=1e6))
    world.deliver_until("S4")
    question = {"task_id": "critic", "timeout_sec": 60.0, "advice": "critic"}
    told = (("summons_asked", {"task": question}), ("summons_answered", {"answer": {"task_id": "critic"}}))
    deadlines = watched(world)
    for number, (name, payload) in enumerate(told, 90):
        events = [{"event_type": name, "ts": NOW.isoformat(), "payload": payload}]
        deadlines.saw(make_entry(json.dumps({"number": number, "events": events}).encode(), RUN_ID))
        assert bool(deadlines.due(START + 60.1 + GRACE)) == (name == "summons_asked")
