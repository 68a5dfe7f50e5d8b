"""A run's budget as the decider sees it: what is handed out, what is counted, and when the run ends."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.contracts import UsageReport
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import BudgetError
from gatewright.ledger import chain
from gatewright.run.evolve import fold
from gatewright.run.spending import shares, spending_of
from gatewright.services.gatekeeper.decider.inputs import UsageReceived
from gatewright.tasks.budget_meter import STEP, BudgetMeter
from tests.gatekeeper.budgeted_run import BudgetedRun, make_usage, workers_at_work
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script


def later(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def test_a_run_without_a_budget_hands_out_none() -> None:
    world = BudgetedRun(Script(shards=2))
    world.deliver_all()
    assert world.opened.status == "SUCCESS"
    assert world.given("w01") is None
    assert not world.at(NOW + later(1e9))


@pytest.mark.parametrize("state", ["S0", "S1", "S2", "S3", "S4"])
def test_a_run_ends_in_any_state_when_its_time_is_up(state: str) -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until(state)
    assert not world.at(NOW + later(99.9))
    assert world.at(NOW + later(100))
    event = world.exceeded()
    assert (event.budget, event.limit, event.used, event.totals["wall_sec"]) == ("wall_sec", 100.0, 100.0, 100.0)
    assert "waiting for the" in event.waiting


def test_time_that_is_spent_waiting_for_locks_counts() -> None:
    world = BudgetedRun(Script(lock_refusals=99), budget=Budget(wall_sec=100))
    for _ in range(3):
        world.deliver(world.under_way.pop(0))
    assert world.opened.waiting_for_locks
    assert world.at(NOW + later(101))
    assert world.exceeded().waiting == "while waiting for paths that others hold"


def test_the_time_that_is_up_is_decided_once() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    assert world.at(NOW + later(100))
    assert not world.at(NOW + later(100))
    assert world.tell("w01", make_usage(tokens=1))
    assert world.exceeded().used == 100


def test_an_answer_that_comes_after_the_time_is_up_does_not_land() -> None:
    """A gatekeeper that was away must not take the answer first, and look at the clock later."""
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S4")
    (answer,) = world.under_way
    assert world.at(NOW + later(3600), answer)
    assert world.exceeded().budget == "wall_sec"
    assert world.opened.landed is None


def test_a_worker_s_result_that_comes_too_late_is_kept_as_evidence() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S2")
    (answer,) = world.under_way
    assert world.at(NOW + later(3600), answer)
    assert world.exceeded().budget == "wall_sec"
    assert world.opened.tasks[f"{RUN_ID}.plan.w01"].result is not None


def test_what_is_proven_and_about_to_land_is_not_called_back() -> None:
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    world.deliver_until("S4")
    world.deliver(world.under_way.pop(0), crash_after_append=True)
    assert world.opened.tests_passed
    assert not world.at(NOW + later(200))


def test_parallel_tasks_share_what_is_left_to_the_last_token() -> None:
    world = BudgetedRun(Script(shards=3), budget=Budget(tokens=100, cost_usd=1.0, iterations=9, wall_sec=1000))
    world.deliver_until("S2")
    given = [world.given(f"w{number:02}") for number in (1, 2, 3)]
    assert [share.tokens for share in given if share] == [34, 33, 33]
    assert [share.cost_usd for share in given if share] == [0.333333334, 0.333333333, 0.333333333]
    assert [share.iterations for share in given if share] == [3, 3, 3]
    assert all(share is not None and share.wall_sec is not None and 990 < share.wall_sec < 1000 for share in given)


def test_the_next_batch_gets_what_the_one_before_has_left() -> None:
    world = BudgetedRun(Script(shards=2, serial=True), budget=Budget(tokens=100))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=60)
    world.deliver_all()
    assert world.opened.status == "SUCCESS"
    first, second = world.given("w01"), world.given("w02")
    assert first is not None
    assert second is not None
    assert (first.tokens, second.tokens) == (100, 40)


def test_nothing_more_is_given_out_when_the_budget_is_spent() -> None:
    world = BudgetedRun(Script(shards=2, serial=True), budget=Budget(tokens=60))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=60)
    world.deliver_all()
    event = world.exceeded()
    assert (event.budget, event.limit, event.used) == ("tokens", 60, 60)
    assert world.opened.tasks[f"{RUN_ID}.plan.w02"].status == "PENDING"


def test_a_run_that_spends_its_last_token_is_still_judged() -> None:
    world = BudgetedRun(Script(), budget=Budget(tokens=60, cost_usd=0.5))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=60, cost_usd=0.5)
    world.deliver_all()
    assert world.opened.status == "SUCCESS"
    review = world.opened.tasks[f"{RUN_ID}.review.a1"].contract
    assert review is not None
    assert review.budget == Budget(tokens=0, cost_usd=0.0)


def test_a_budget_of_nothing_lets_work_be_done_that_uses_nothing() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=1), budget=Budget(tokens=0, cost_usd=0.0))
    world.deliver_all()
    assert world.opened.status == "SUCCESS"


def test_usage_of_all_tasks_and_attempts_adds_up() -> None:
    world = BudgetedRun(Script(shards=2, retries=1, tests_fail_until=1), budget=Budget(tokens=1000))
    for number in (1, 2):
        for ending in ("", ".a2"):
            world.used[f"{RUN_ID}.plan.w{number:02}{ending}"] = make_usage(tokens=100, cost_usd=0.1)
    world.deliver_all()
    assert world.opened.status == "SUCCESS"
    assert (spending_of(world.opened).tokens, spending_of(world.opened).cost_usd) == (400, 0.4)
    again = world.given("w01.a2")
    assert again is not None
    assert again.tokens == 400


def test_a_running_task_s_reports_end_the_run_and_all_its_tasks() -> None:
    world = BudgetedRun(Script(shards=2), budget=Budget(tokens=100))
    world.deliver_until("S2")
    assert world.tell("w01", make_usage(tokens=50))
    assert world.tell("w02", make_usage(tokens=50))
    assert world.opened.status == "RUNNING"
    assert world.tell("w02", make_usage(tokens=51))
    event = world.exceeded()
    assert (event.budget, event.limit, event.used) == ("tokens", 100, 101)
    assert len(workers_at_work(world)) == 2


def test_reports_count_once_whatever_their_order() -> None:
    world = BudgetedRun(Script(), budget=Budget(tokens=100))
    world.deliver_until("S2")
    assert world.tell("w01", make_usage(tokens=40))
    assert not world.tell("w01", make_usage(tokens=40))
    assert not world.tell("w01", make_usage(tokens=20))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=40)
    world.deliver_all()
    assert world.opened.status == "SUCCESS"
    assert spending_of(world.opened).tokens == 40


def test_every_delivery_of_a_task_counts() -> None:
    """A worker that dies and is followed by another has spent what it has spent."""
    world = BudgetedRun(Script(), budget=Budget(tokens=100))
    world.deliver_until("S2")
    assert world.tell("w01", make_usage(tokens=90, delivery="7.1"))
    assert world.tell("w01", make_usage(tokens=11, delivery="7.2"))
    assert world.exceeded().used == 101


def test_a_role_cannot_report_for_another_s_task() -> None:
    world = BudgetedRun(Script(), budget=Budget(tokens=100))
    world.deliver_until("S3")
    assert not world.tell("w09", make_usage(tokens=1000))
    report = UsageReport(run_id=RUN_ID, task_id=f"{RUN_ID}.review.a1", usage=make_usage(tokens=1000))
    assert not world.at(NOW, UsageReceived("worker", report, "usage"))
    assert world.at(NOW, UsageReceived("reviewer", report, "usage"))


def test_a_task_that_overdraws_its_share_ends_the_run_and_is_named() -> None:
    world = BudgetedRun(Script(shards=2), budget=Budget(cost_usd=1.0))
    name = f"{RUN_ID}.plan.w01"
    world.used[name], world.failures[name] = make_usage(cost_usd=0.6), "budget_exceeded: cost_usd: 0.6 of 0.5 used"
    world.deliver_until("FAILED")
    event = world.exceeded()
    assert (event.budget, event.limit, event.used, event.task_id) == ("cost_usd", 0.5, 0.6, name)
    assert event.totals["cost_usd"] == 0.6


def test_a_worker_whose_time_ran_out_first_is_believed() -> None:
    """The clocks of two hosts differ: the gatekeeper that reads the answer may be a moment behind."""
    world = BudgetedRun(Script(), budget=Budget(wall_sec=100))
    name = f"{RUN_ID}.plan.w01"
    world.failures[name] = "budget_exceeded: 96 of 96 wall_sec used"
    world.deliver_until("FAILED")
    event = world.exceeded()
    assert (event.budget, event.task_id) == ("wall_sec", name)


def test_a_worker_that_was_given_no_budget_cannot_have_exceeded_one() -> None:
    world = BudgetedRun(Script(), failures={f"{RUN_ID}.plan.w01": "budget_exceeded: says who"})
    world.deliver_until("FAILED")
    assert world.opened.failure is not None
    assert world.opened.failure.message == "says who"


def test_ten_times_a_tenth_is_not_more_than_one() -> None:
    world = BudgetedRun(Script(shards=4), budget=Budget(cost_usd=0.3))
    world.deliver_until("S2")
    for number in (1, 2, 3):
        assert world.tell(f"w{number:02}", make_usage(cost_usd=0.1))
    assert world.opened.status == "RUNNING"


def test_iterations_bound_the_fix_loop_before_the_retries_do() -> None:
    world = BudgetedRun(Script(retries=3, tests_fail_until=9), budget=Budget(iterations=2))
    world.deliver_all()
    event = world.exceeded()
    assert world.opened.attempt == 2
    assert (event.budget, event.limit, event.used) == ("iterations", 2, 2)


def test_retries_bound_the_fix_loop_before_the_iterations_do() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=9), budget=Budget(iterations=9))
    world.deliver_all()
    assert world.opened.failure is not None
    assert world.opened.failure.code == "tests_failed"


def test_shards_of_one_round_are_one_iteration() -> None:
    world = BudgetedRun(Script(shards=4, serial=True), budget=Budget(iterations=1))
    world.deliver_all()
    assert world.opened.status == "SUCCESS"


def test_turns_of_an_executor_count_as_iterations() -> None:
    world = BudgetedRun(Script(retries=3, tests_fail_until=9), budget=Budget(iterations=5))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(iterations=5)
    world.deliver_all()
    assert world.opened.attempt == 1
    assert world.exceeded().budget == "iterations"


def test_the_next_round_begins_when_the_back_off_is_over() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=1), back_off=30)
    world.deliver_until("S5", attempt=2)
    ordered = world.last_moment - later(1)
    assert not world.under_way
    assert not world.at(ordered + later(29))
    assert world.at(ordered + later(30))
    assert world.state == "S2"
    world.deliver_all()
    assert world.opened.status == "SUCCESS"


def test_a_back_off_does_not_outlive_the_budget() -> None:
    world = BudgetedRun(Script(retries=1, tests_fail_until=1), budget=Budget(wall_sec=60), back_off=3600)
    world.deliver_until("S5", attempt=2)
    assert world.at(NOW + later(60))
    assert world.exceeded().waiting == "before the next round of fixing"


def test_the_ledger_alone_records_the_usage() -> None:
    world = BudgetedRun(Script(shards=2, retries=1, tests_fail_until=1), budget=Budget(tokens=1000, wall_sec=1e6))
    world.used[f"{RUN_ID}.plan.w01"] = make_usage(tokens=7)
    world.deliver_all()
    assert fold(world.transitions) == world.run
    records = [record for transition in world.transitions for record in transition.events]
    chain.check(records)
    assert all(after.seq == before.seq + 1 for before, after in pairwise(records))


@settings(deadline=None)
@given(
    tokens=st.integers(0, 10**6),
    cents=st.integers(0, 10**6),
    count=st.integers(1, 64),
    reported=st.integers(0, 10**6),
)
def test_shares_are_never_more_than_what_is_left(tokens: int, cents: int, count: int, reported: int) -> None:
    world = BudgetedRun(Script(), budget=Budget(tokens=tokens, cost_usd=cents / 100, wall_sec=5))
    world.deliver_until("S2")
    reported = min(reported, tokens)
    if reported:
        world.tell("w01", make_usage(tokens=reported))
    given = [share for share in shares(world.opened, NOW + later(3), count) if share is not None]
    assert len(given) == count
    assert sum(share.tokens or 0 for share in given) == tokens - reported
    assert sum(round((share.cost_usd or 0) * 10**9) for share in given) == cents * 10**7
    assert {share.wall_sec for share in given} == {2.0}


@settings(deadline=None)
@given(
    limit=st.integers(1, 10_000),
    count=st.integers(1, 5),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 700), st.booleans()), max_size=80),
)
def test_never_more_is_used_than_the_limit_and_one_report_step(
    limit: int, count: int, steps: list[tuple[int, int, bool]]
) -> None:
    """Workers side by side, each with its meter; some die at any moment and are followed by others with the same share."""
    world = BudgetedRun(Script(shards=count), budget=Budget(tokens=limit))
    world.deliver_until("S2")
    names = [f"w{number:02}" for number in range(1, count + 1)]
    meters = {name: BudgetMeter(world.given(name), delivery="1.1") for name in names}
    used = forgotten = 0
    largest = max((amount for _, amount, _ in steps), default=0)
    for number, (place, amount, dies) in enumerate(steps, 2):
        name = names[place % count]
        meter = meters[name]
        used += amount
        try:
            meter.spend(tokens=amount)
        except BudgetError:
            break  # the worker stops, and its answer ends the run
        if meter.report_due.is_set() and not dies and (usage := meter.unreported_usage()) is not None:
            world.tell(name, usage)
            meter.reported(usage)
            meter.report_due.clear()
        if world.opened.ended:
            break  # all are told to stop
        if dies:
            meters[name] = BudgetMeter(world.given(name), delivery=f"1.{number}")
            forgotten += amount + max(1, int(limit * STEP))
    assert used <= limit + largest + forgotten
