"""Organisation budgets on a real server: gatekeepers that reserve at the same time never exceed the limit together."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.clock import SystemClock
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import LimitError
from gatewright.run.state import Run
from gatewright.services.gatekeeper.budget_accounts import Amount, BudgetAccounts
from gatewright.services.gatekeeper.policies.budgets import BudgetsPolicy, OrganisationBudget
from tests.unauthenticated_nats import OpenServer

LIMIT = OrganisationBudget(name="team", publishers=("*",), repositories=("*",), period="month", tokens=1000)


async def unknown(_run_id: str) -> Run | None:
    return None


async def test_concurrent_gatekeepers_never_exceed_a_budget(nats_server: OpenServer) -> None:
    policy = BudgetsPolicy(version="1", budgets=(LIMIT,))
    async with AsyncExitStack() as stack:
        replicas = []
        for _ in range(3):
            connected = await JetStreamBus.connect(nats_server.url, name="gatekeeper")
            stack.push_async_callback(connected.close)
            replicas.append(BudgetAccounts(connected, policy, SystemClock(), unknown))
        asked = (replicas[n % 3].reserve(f"run-{n}", (LIMIT,), Budget(tokens=10)) for n in range(632))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert answers.count(None) == 100
        assert sum(isinstance(each, LimitError) for each in answers) == 532
        assert (await replicas[0].account(LIMIT)).used == Amount(1000)
