"""Organisation budgets: never more than the limit, each run counted once, and a new account in each period."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as msgspec_replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import BudgetState, Error, SubmitReply
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import DeniedError, LimitError
from gatewright.run.state import Run
from gatewright.services.gatekeeper import budget_accounts
from gatewright.services.gatekeeper.budget_accounts import MOST_PERIODS, Amount, BudgetAccount, BudgetAccounts, EntryAccounts
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.policies.budgets import BudgetsPolicy, OrganisationBudget, RunDefault
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_request
from tests.gatekeeper.budgeted_run import BudgetedRun, make_usage
from tests.gatekeeper.publishing import HandClock, make_publisher, open_intake
from tests.gatekeeper.simulated_run import RUN_ID, Script

NOW = datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)


def entry(**fields: Any) -> OrganisationBudget:
    plain = {"name": "team", "publishers": ("ci",), "repositories": ("*",), "period": "day", "tokens": 100}
    return OrganisationBudget.model_validate({**plain, **fields})


async def unknown(_run_id: str) -> Run | None:
    return None


def accounts(bus: MemoryBus, limit: OrganisationBudget) -> BudgetAccounts:
    return BudgetAccounts(bus, BudgetsPolicy(version="1", budgets=(limit,)), HandClock(), unknown)


def test_money_is_added_without_rounding_errors() -> None:
    account: BudgetAccount | None = BudgetAccount()
    for number in range(10):
        assert account is not None
        account = account.reserve(f"run-{number}", Amount(0, 100_000_000), entry(tokens=None, cost_usd=1.0), NOW)
    assert account is not None
    assert account.reserve("run-x", Amount(0, 1), entry(tokens=None, cost_usd=1.0), NOW) is None


def test_a_second_settlement_of_a_run_changes_nothing() -> None:
    account = BudgetAccount().reserve("run-a", Amount(60), entry(), NOW)
    assert account is not None
    settled = account.settle("run-a", Amount(40))
    assert settled.settle("run-a", Amount(40)) == settled
    assert settled.used == Amount(40)


def test_periods_begin_at_midnight_and_at_the_month() -> None:
    assert entry().ends(NOW) == datetime(2026, 3, 1, tzinfo=UTC)
    assert entry(period="month").starts(NOW) == datetime(2026, 2, 1, tzinfo=UTC)
    assert entry(period="month").ends(datetime(2026, 12, 31, tzinfo=UTC)) == datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("fields", [{"tokens": None}, {"tokens": -1}, {"tokens": 2**70}, {"cost_usd": float("nan")}, {"x": 1}])
def test_a_hostile_entry_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"limit|greater|less|finite|Extra"):
        entry(**fields)


async def test_several_gatekeepers_never_exceed_the_limit_together(bus: MemoryBus) -> None:
    limit = entry(tokens=70)
    replicas = [accounts(bus, limit) for _ in range(3)]
    asked = (replicas[n % 3].reserve(f"run-{n}", (limit,), Budget(tokens=10)) for n in range(30))
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(each, LimitError) for each in answers) == 23
    assert (await replicas[0].account(limit)).used == Amount(70)


async def test_a_run_without_budget_is_refused(bus: MemoryBus) -> None:
    limit = entry()
    with pytest.raises(DeniedError, match="team") as refusal:
        await accounts(bus, limit).reserve("run-a", (limit,), Budget())
    assert refusal.value.reason == "budget_missing"


async def test_a_run_reserves_its_default_budget_until_its_seal(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> None:
    policy = BudgetsPolicy(version="1", budgets=(entry(publishers=("*",)),), run_default=RunDefault(tokens=60))
    intake = open_intake(bus, gates, tmp_path, make_publisher("default"))
    submissions = intake.results.submissions
    plain = submissions.orchestrator
    held = BudgetAccounts(bus, policy, intake.clock, plain.current)
    intake.results = replace(intake.results, submissions=replace(submissions, orchestrator=replace(plain, accounts=held)))
    order = msgspec_replace(make_request(), executor=None)
    first = await intake.submit(msgspec_replace(order, idempotency_key="a" * 16))
    assert isinstance(first, SubmitReply), first
    run = await intake.run(first.run_id)
    assert run is not None
    assert run.request is not None
    assert run.request.budget == Budget(tokens=60)
    assert run.sealed is not None
    assert (await held.account(policy.budgets[0])).used == Amount()  # the gate refused the run: it used nothing
    await held.reserve("run-other", policy.budgets, Budget(tokens=60))
    again = await intake.submit(msgspec_replace(order, idempotency_key="a" * 16))
    assert isinstance(again, SubmitReply), again
    second = await intake.submit(msgspec_replace(order, idempotency_key="b" * 16))
    assert isinstance(second, Error), second
    assert second.code == "organisation_budget_exceeded"
    assert "40 tokens left this day" in second.message
    assert await intake.runs() == {first.run_id}
    for task in intake.following:
        task.cancel()


async def test_the_reservation_of_an_unknown_run_returns_after_an_hour(bus: MemoryBus) -> None:
    limit, clock = entry(period="month"), HandClock()
    held = BudgetAccounts(bus, BudgetsPolicy(version="1", budgets=(limit,)), clock, unknown)
    await held.reserve("run-lost", (limit,), Budget(tokens=100))
    with pytest.raises(LimitError):
        await held.reserve("run-a", (limit,), Budget(tokens=100))
    clock.seconds = 3601
    await held.reserve("run-a", (limit,), Budget(tokens=100))
    assert (await held.account(limit)).reserved.keys() == {"run-a"}


async def test_a_second_order_of_one_key_reserves_what_it_asks_for(bus: MemoryBus) -> None:
    held = accounts(bus, entry())
    await held.reserve("run-a", (entry(),), Budget(tokens=10))
    await held.reserve("run-a", (entry(),), Budget(tokens=70))
    await held.reserve("run-a", (entry(),), Budget(tokens=20))
    assert (await held.account(entry())).used == Amount(70)
    with pytest.raises(LimitError):
        await held.reserve("run-b", (entry(),), Budget(tokens=40))


async def test_a_refused_second_order_keeps_the_first_reservation(bus: MemoryBus) -> None:
    wide, narrow = entry(name="wide", tokens=1000), entry(name="narrow")
    held = BudgetAccounts(bus, BudgetsPolicy(version="1", budgets=(wide, narrow)), HandClock(), unknown)
    await held.reserve("run-a", (wide, narrow), Budget(tokens=50))
    with pytest.raises(LimitError):
        await held.reserve("run-a", (wide, narrow), Budget(tokens=500))
    assert (await held.account(narrow)).used == Amount(50)
    assert (await held.account(wide)).used.tokens >= 50


async def test_a_state_shows_usage_reservations_and_the_next_period(bus: MemoryBus) -> None:
    limit = entry(tokens=100, cost_usd=1.0)
    held = accounts(bus, limit)
    await held.reserve("run-a", (limit,), Budget(tokens=30, cost_usd=0.5))
    await held.reserve("run-b", (limit,), Budget(tokens=40, cost_usd=0.25))
    await held._settle(limit, "run-a", Amount(20, 400_000_000))
    (state,) = await held.states("ci")
    assert (state.spent_tokens, state.reserved_tokens, state.tokens) == (20, 40, 100)
    assert (state.spent_usd, state.reserved_usd, state.cost_usd) == (0.4, 0.25, 1.0)
    assert (state.runs, state.ends, round(state.share, 2)) == (1, "2026-01-02T00:00:00.000Z", 0.65)


async def test_a_publisher_sees_the_budgets_of_its_runs_alone(bus: MemoryBus) -> None:
    entries = (entry(), entry(name="all", publishers=("*",)), entry(name="other", publishers=("cd",)))
    held = BudgetAccounts(bus, BudgetsPolicy(version="1", budgets=entries), HandClock(), unknown)
    assert [each.name for each in await held.states("ci")] == ["team", "all"]
    assert [each.name for each in await held.states()] == ["team", "all", "other"]


def test_a_limit_of_zero_is_always_reached() -> None:
    state = BudgetState(name="x", period="day", ends="2026-01-02T00:00:00.000Z", repositories=("*",), runs=0, tokens=0)
    assert state.share == 1.0


async def test_a_nearly_used_budget_is_logged_once_and_exported(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limit, metrics, stop = entry(), Metrics("gatekeeper"), asyncio.Event()
    held = accounts(bus, limit)
    await held.reserve("run-a", (limit,), Budget(tokens=80))
    looks: list[float] = []

    async def look_twice(_stop: asyncio.Event, seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            stop.set()

    monkeypatch.setattr(budget_accounts, "pause_unless", look_twice)
    await held.watch(stop, metrics, make_logger())
    assert len(looks) == 2
    assert capsys.readouterr().err.count('"event":"budget_nearly_used"') == 1
    assert b'gatewright_budget_used_ratio{budget="team"} 0.8' in metrics.exposition()


@dataclass
class House:
    """Accounts of one entry on a bus, with a clock that moves and the runs of a ledger."""

    bus: MemoryBus
    limit: OrganisationBudget
    clock: HandClock = field(default_factory=HandClock)
    runs: dict[str, Run] = field(default_factory=dict)

    async def find(self, run_id: str) -> Run | None:
        return self.runs.get(run_id)

    def accounts(self) -> BudgetAccounts:
        """Those of a gatekeeper that has just started."""
        return BudgetAccounts(self.bus, BudgetsPolicy(version="1", budgets=(self.limit,)), self.clock, self.find)

    async def reserve(self, run_id: str, tokens: int) -> None:
        await self.accounts().reserve(run_id, (self.limit,), Budget(tokens=tokens))

    async def periods(self) -> dict[str, tuple[int, list[str]]]:
        """Used tokens and reserving runs by period, as the bus has them."""
        value = await self.bus.kv_get(f"budgets.{self.limit.name}.{self.limit.period}")
        found = msgspec.json.decode(value[0], type=EntryAccounts) if value is not None else EntryAccounts()
        return {day: (account.used.tokens, [*account.reserved]) for day, account in found.periods.items()}

    def seal(self, tokens: int) -> Run:
        """A sealed run in the ledger that used so many tokens."""
        world = BudgetedRun(Script(), budget=Budget(tokens=100), used={f"{RUN_ID}.plan.w01": make_usage(tokens=tokens)})
        world.deliver_all()
        assert world.opened.sealed is not None
        self.runs[RUN_ID] = world.opened
        return world.opened


DAY = 86_400.0
#: One second before a period ends: a day, and a month.
ENDS = [("day", DAY - 1, "2026-01-01", "2026-01-02"), ("month", 31 * DAY - 1, "2026-01-01", "2026-02-01")]


@pytest.mark.parametrize(("period", "before", "first", "second"), ENDS)
async def test_a_submission_delivered_again_in_the_next_period_counts_once(
    period: str, before: float, first: str, second: str, bus: MemoryBus
) -> None:
    """A gatekeeper dies after the reservation; the next one reads the submission after midnight."""
    house = House(bus, entry(period=period))
    house.clock.seconds = before
    await house.reserve(RUN_ID, 60)
    house.clock.seconds += 2
    await house.reserve(RUN_ID, 60)
    assert await house.periods() == {first: (60, [RUN_ID]), second: (60, [RUN_ID])}
    await house.accounts().settle(house.seal(30))
    await house.accounts().settle(house.seal(30))
    assert await house.periods() == {first: (0, []), second: (30, [])}


@pytest.mark.parametrize("hours", [0.5, 30])
async def test_a_run_sealed_in_a_later_period_returns_its_reservation(hours: float, bus: MemoryBus) -> None:
    house = House(bus, entry())
    house.clock.seconds = DAY - 1
    await house.reserve(RUN_ID, 60)
    house.clock.seconds += hours * 3600
    await house.accounts().settle(house.seal(30))
    assert await house.periods() == {"2026-01-01": (30, [])}


async def test_a_gatekeeper_killed_after_the_seal_leaves_no_reservation(bus: MemoryBus) -> None:
    """Also in a period that is over: the next look at the current one settles it."""
    house = House(bus, entry())
    house.clock.seconds = DAY - 1
    await house.reserve(RUN_ID, 60)
    house.seal(30)
    house.clock.seconds += 3601
    assert (await house.accounts().account(house.limit)).used == Amount()
    assert await house.periods() == {"2026-01-01": (30, [])}


async def test_the_accounts_of_an_entry_do_not_grow_for_ever(bus: MemoryBus) -> None:
    house = House(bus, entry())
    for day in range(30):
        house.clock.seconds = day * DAY
        await house.reserve(f"run-{day}", 10)
    kept = await house.periods()
    assert [*kept] == [f"2026-01-{day}" for day in range(30 - MOST_PERIODS + 1, 31)]
    assert kept["2026-01-30"] == (10, ["run-29"])


async def test_a_clock_that_jumped_ahead_frees_no_budget(bus: MemoryBus) -> None:
    house = House(bus, entry())
    await house.reserve("run-a", 100)
    for day in (400, 900):
        house.clock.seconds = day * DAY
        await house.reserve(f"run-{day}", 10)
    house.clock.seconds = 60
    with pytest.raises(LimitError):
        await house.reserve("run-b", 1)
