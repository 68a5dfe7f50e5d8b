"""A meter ends work that uses more than it was given, whatever the work does about it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatewright.contracts import RequestTask
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import BudgetError, MalformedError
from gatewright.tasks.budget_meter import LATE, BudgetMeter, budget_of
from tests.factories import BASELINE, make_contract, make_request


def test_what_is_used_adds_up_exactly() -> None:
    meter = BudgetMeter(Budget(cost_usd=1.0))
    for _ in range(10):
        meter.spend(cost_usd=0.1)
    assert meter.usage is not None
    assert meter.usage.cost_usd == 1.0
    with pytest.raises(BudgetError, match="cost_usd"):
        meter.spend(cost_usd=1e-9)


@pytest.mark.parametrize(
    ("budget", "amounts"),
    [
        (Budget(tokens=10), {"tokens": 11}),
        (Budget(tokens=0), {"tokens": 1}),
        (Budget(cost_usd=0.0), {"cost_usd": 0.01}),
        (Budget(iterations=1), {"iterations": 2}),
    ],
)
def test_the_call_beyond_the_budget_and_every_later_one_fail(budget: Budget, amounts: dict[str, Any]) -> None:
    meter = BudgetMeter(budget)
    with pytest.raises(BudgetError) as refusal:
        meter.spend(**amounts)
    assert refusal.value.reason == "budget_exceeded"
    with pytest.raises(BudgetError):
        meter.spend()
    assert meter.usage is not None  # what was used too much was used


@pytest.mark.parametrize(
    "amounts", [{"tokens": -1}, {"cost_usd": -0.1}, {"cost_usd": float("nan")}, {"cost_usd": float("inf")}]
)
def test_nothing_is_ever_given_back(amounts: dict[str, float]) -> None:
    with pytest.raises(MalformedError, match="no task uses"):
        BudgetMeter().spend(**amounts)  # type: ignore[arg-type]  # what a careless executor may do


async def test_work_that_swallows_the_error_is_cancelled() -> None:
    meter, ended = BudgetMeter(Budget(tokens=10)), asyncio.Event()

    async def deaf() -> str:
        try:
            while True:
                with contextlib.suppress(BudgetError):
                    meter.spend(tokens=6)
                await asyncio.sleep(0)
        finally:
            ended.set()

    with pytest.raises(BudgetError, match="12 of 10 tokens used"):
        await asyncio.wait_for(meter.within(deaf()), 5)
    assert ended.is_set()
    assert meter.usage is not None
    assert meter.usage.tokens == 18  # the call after the one that told it was its last


async def test_work_that_pretends_to_have_succeeded_has_not() -> None:
    meter = BudgetMeter(Budget(tokens=10))

    async def sly() -> str:
        try:
            meter.spend(tokens=11)
        except BudgetError:
            return "done"
        return "never"

    with pytest.raises(BudgetError):
        await meter.within(sly())


async def test_work_that_waits_is_cancelled_by_a_part_of_it_that_spends() -> None:
    meter = BudgetMeter(Budget(tokens=10))

    async def reader() -> None:
        while True:
            meter.spend(tokens=4)
            await asyncio.sleep(0.01)

    async def waiting() -> None:
        reading = asyncio.create_task(reader())
        try:
            await asyncio.sleep(60)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    with pytest.raises(BudgetError):
        await asyncio.wait_for(meter.within(waiting()), 5)


async def test_time_is_up_for_work_that_spends_nothing() -> None:
    """The gatekeeper says so first; this is for who does not hear it."""
    began = time.monotonic()
    with pytest.raises(BudgetError, match=r"2\.1 of 0\.1 wall_sec"):
        await BudgetMeter(Budget(wall_sec=0.1)).within(asyncio.sleep(600))
    assert time.monotonic() - began >= 0.1 + LATE


async def test_work_within_its_budget_is_left_alone() -> None:
    meter = BudgetMeter(Budget(tokens=10, wall_sec=60))

    async def modest() -> str:
        meter.spend(tokens=10)
        return "done"

    assert await meter.within(modest()) == "done"


async def test_the_error_of_the_work_itself_comes_through() -> None:
    async def broken() -> None:
        raise MalformedError("not a patch")

    with pytest.raises(MalformedError, match="not a patch"):
        await BudgetMeter(Budget(tokens=10)).within(broken())


async def test_cancelling_the_caller_ends_the_work() -> None:
    ended = asyncio.Event()

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    doing = asyncio.create_task(BudgetMeter(Budget(tokens=1)).within(long()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert ended.is_set()


def test_the_pm_s_task_has_the_request_s_budget() -> None:
    request = make_request(budget=Budget(tokens=7))
    task = RequestTask(run_id="run-0123456789", task_id="run-0123456789.pm", baseline_commit=BASELINE, request=request)
    assert budget_of(task) == Budget(tokens=7)
    assert budget_of(make_contract()) == Budget()


@settings(deadline=None)
@given(limit=st.integers(1, 10_000), steps=st.lists(st.integers(0, 500), max_size=60))
def test_a_crash_forgets_less_than_one_report_step(limit: int, steps: list[int]) -> None:
    """Reports are sent as soon as they are due: at any moment what is not reported is a step and the last amount at most."""
    meter = BudgetMeter(Budget(tokens=limit))
    told = used = 0
    for amount in steps:
        try:
            meter.spend(tokens=amount)
        except BudgetError:
            break
        finally:
            used += amount
            if meter.report_due.is_set() and (usage := meter.unreported_usage()) is not None:
                meter.reported(usage)
                meter.report_due.clear()
                told = usage.tokens
        assert used - told < max(1, limit / 20)
        assert used <= limit


async def test_work_that_heeds_the_error_may_tidy_up_undisturbed() -> None:
    meter, tidy = BudgetMeter(Budget(tokens=10)), asyncio.Event()

    async def honest() -> None:
        try:
            meter.spend(tokens=11)
        finally:
            await asyncio.sleep(0.1)
            tidy.set()

    with pytest.raises(BudgetError):
        await meter.within(honest())
    assert tidy.is_set()


async def test_tidying_up_has_an_end() -> None:
    meter = BudgetMeter(Budget(tokens=10))

    async def slow() -> None:
        try:
            meter.spend(tokens=11)
        finally:
            await asyncio.sleep(60)

    with pytest.raises(BudgetError):
        await asyncio.wait_for(meter.within(slow()), 5)


def test_sent_bytes_are_reported_by_steps_without_ending_the_task() -> None:
    meter = BudgetMeter(most_sent=1000, delivery="3.1")
    meter.spend(sent_bytes=49)
    assert not meter.report_due.is_set()
    meter.spend(sent_bytes=1)
    assert meter.report_due.is_set()
    meter.spend(sent_bytes=2000)
    told = meter.unreported_usage()
    assert told is not None
    assert (told.sent_bytes, told.delivery) == (2050, "3.1")
    meter.reported(told)
    assert meter.unreported_usage() is None
    with pytest.raises(MalformedError):
        meter.spend(sent_bytes=-1)
