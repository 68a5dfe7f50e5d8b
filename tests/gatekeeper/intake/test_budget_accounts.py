"""Organisation budgets: never more than the limit, each run counted once, and a new account in each period."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import DeniedError, LimitError
from gatewright.run.state import Run
from gatewright.services.gatekeeper.intake.budget_accounts import Amount, BudgetAccount, BudgetAccounts
from gatewright.services.gatekeeper.policies.budgets import BudgetsPolicy, OrganisationBudget
from tests.gatekeeper.publishing import HandClock

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
