"""Accounts of organisation budgets: a run reserves its budget before acceptance, and its real usage replaces that at its seal.

One bus key holds the accounts of an entry, of its newest ``MOST_PERIODS`` periods. Compare-and-set orders several gatekeepers,
so together they never reserve more than the limit. The reservation of a run that the ledger does not know is returned after
``GRACE``.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gatewright.budgets import BILLION, nano, number
from gatewright.bus.port import Bus
from gatewright.clock import Clock, timestamp
from gatewright.contracts import BudgetState, RunRequest, TaskContract
from gatewright.contracts.run_status import NEARLY_USED
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import BusError, ConflictError, DeniedError, LimitError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.foreign_documents import read_json
from gatewright.pause import pause_unless
from gatewright.run.spending import spending_of
from gatewright.run.state import Run
from gatewright.services.gatekeeper.policies.budgets import BudgetsPolicy, OrganisationBudget
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Age from which the reservation of an unknown run is returned: no acceptance takes longer.
GRACE = timedelta(hours=1)
#: Seconds between two looks at all accounts.
LOOK = 30.0
#: Periods that an entry keeps. More than two: clocks that jump ahead for a while must not push out the current one.
MOST_PERIODS = 8
_ATTEMPTS = 50

Result = TypeVar("Result")


class Amount(msgspec.Struct, frozen=True):
    """Tokens, and money in billionths of a dollar."""

    tokens: int = 0
    nano_usd: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.nano_usd + other.nano_usd)


class Reservation(msgspec.Struct, frozen=True):
    amount: Amount
    at: datetime


class BudgetAccount(msgspec.Struct, frozen=True):
    """Usage of the sealed runs of a period, and what its other runs have reserved, by run id."""

    spent: Amount = Amount()
    reserved: dict[str, Reservation] = {}

    @property
    def held(self) -> Amount:
        """What its runs have reserved."""
        return reduce(Amount.plus, (each.amount for each in self.reserved.values()), Amount())

    @property
    def used(self) -> Amount:
        """Usage and reservations together."""
        return self.spent.plus(self.held)

    def reserve(self, run_id: str, wanted: Amount, limit: OrganisationBudget, now: datetime) -> BudgetAccount | None:
        """Return the account with the reservation; None when it exceeds the limit.

        A repeated reservation keeps the larger amount: an order of the same key may ask for more.
        """
        held = self.reserved[run_id].amount if run_id in self.reserved else Amount()
        wanted = Amount(max(held.tokens, wanted.tokens), max(held.nano_usd, wanted.nano_usd))
        if run_id in self.reserved and wanted == held:
            return self
        after = Amount(self.used.tokens - held.tokens + wanted.tokens, self.used.nano_usd - held.nano_usd + wanted.nano_usd)
        if limit.tokens is not None and after.tokens > limit.tokens:
            return None
        if limit.cost_usd is not None and after.nano_usd > nano(limit.cost_usd):
            return None
        return replace(self, reserved={**self.reserved, run_id: Reservation(wanted, now)})

    def settle(self, run_id: str, really: Amount) -> BudgetAccount:
        """Replace a reservation by the usage; a run without a reservation changes nothing, so it is counted once."""
        if run_id not in self.reserved:
            return self
        left = {key: each for key, each in self.reserved.items() if key != run_id}
        return BudgetAccount(self.spent.plus(really), left)


class EntryAccounts(msgspec.Struct, frozen=True):
    """Accounts of one entry, by the first day of their period."""

    periods: dict[str, BudgetAccount] = {}

    def of(self, day: str) -> BudgetAccount:
        """Return the account of a period."""
        return self.periods.get(day, BudgetAccount())

    def having(self, day: str, account: BudgetAccount) -> EntryAccounts:
        """Return the accounts with this one; the oldest beyond ``MOST_PERIODS`` is dropped."""
        if account == self.of(day):
            return self
        newest = sorted({**self.periods, day: account}.items())[-MOST_PERIODS:]
        return EntryAccounts(dict(newest))

    def settle(self, run_id: str, really: Amount) -> EntryAccounts:
        """Replace the reservations of a run by its usage, which counts in the latest period that has one.

        A submission that is delivered again after midnight reserves in both periods.
        """
        days = sorted(day for day, account in self.periods.items() if run_id in account.reserved)
        settled = {day: self.of(day).settle(run_id, really if day == days[-1] else Amount()) for day in days}
        return EntryAccounts({**self.periods, **settled}) if days else self


class BudgetAccounts:
    """Accounts of all entries of a policy. ``find`` returns a run from the ledger."""

    def __init__(self, bus: Bus, policy: BudgetsPolicy, clock: Clock, find: Callable[[str], Awaitable[Run | None]]) -> None:
        self.policy = policy
        self._bus = bus
        self._clock = clock
        self._find = find
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def covering(self, publisher: str, url: str) -> tuple[OrganisationBudget, ...]:
        return tuple(each for each in self.policy.budgets if each.covers(publisher, url))

    async def reserve(self, run_id: str, entries: Sequence[OrganisationBudget], budget: Budget) -> None:
        """Reserve ``budget`` in all entries; after a refusal, in none that the run had no reservation in before.

        Raises:
            DeniedError: the run has no budget for a limited resource (``budget_missing``).
            LimitError: an entry has too little left (``organisation_budget_exceeded``); it carries the time to retry.
        """
        now = self._clock.now()
        for entry in entries:
            _check_budget(entry, budget)
        wanted = Amount(budget.tokens or 0, nano(budget.cost_usd or 0))
        new: list[OrganisationBudget] = []
        try:
            for entry in entries:
                new += [entry] if await self._reserve(run_id, entry, wanted, now) else []
        except LimitError:
            for entry in new:
                await self._release(entry, run_id, now)
            raise

    async def settle(self, run: Run) -> None:
        """Replace the reservations of a sealed run by its usage. A repetition changes nothing."""
        if not self.policy.budgets:
            return
        used = spending_of(run)
        for entry in self.policy.budgets:
            await self._settle(entry, run.run_id, Amount(used.tokens, used.nano_usd))

    async def states(self, publisher: str = "") -> tuple[BudgetState, ...]:
        """Return the entries that cover runs of ``publisher``, or all. Raises BusError."""
        entries = [each for each in self.policy.budgets if not publisher or each.names(publisher)]
        return tuple([_state_of(each, await self.account(each), self._clock.now()) for each in entries])

    async def watch(self, stop: asyncio.Event, metrics: Metrics, log: Logger) -> None:
        """Export the used share of each entry, and log once a period that one is nearly used, until shutdown."""
        warned: set[tuple[str, str]] = set()
        while not stop.is_set():
            try:
                states = await self.states()
            except BusError as error:
                log.info("budgets_unknown", code=error.reason, cause=error.message)
            else:
                metrics.budgets_used({each.name: each.share for each in states})
                full = {(each.name, each.ends): each for each in states if each.share >= NEARLY_USED}
                for key in full.keys() - warned:
                    log.warning("budget_nearly_used", budget=key[0], share=round(full[key].share, 3), ends=key[1])
                warned = {*full}
            await pause_unless(stop, LOOK)

    async def account(self, entry: OrganisationBudget) -> BudgetAccount:
        """Return the account of the current period, without reservations of lost and sealed runs."""
        now = self._clock.now()

        async def tidy(accounts: EntryAccounts) -> tuple[EntryAccounts, BudgetAccount]:
            tidied = await self._tidied(accounts, now)
            return tidied, tidied.of(_day(entry, now))

        return await self._update_accounts(entry, tidy)

    async def _reserve(self, run_id: str, entry: OrganisationBudget, wanted: Amount, now: datetime) -> bool:
        """Reserve in one entry. Return whether the run had no reservation there before."""

        day = _day(entry, now)

        async def change(accounts: EntryAccounts) -> tuple[EntryAccounts, Amount | bool]:
            new = run_id not in accounts.of(day).reserved
            after = accounts.of(day).reserve(run_id, wanted, entry, now)
            if after is None:
                accounts = await self._tidied(accounts, now)
                after = accounts.of(day).reserve(run_id, wanted, entry, now)
            return (accounts, accounts.of(day).used) if after is None else (accounts.having(day, after), new)

        used = await self._update_accounts(entry, change)
        if isinstance(used, Amount):
            ends = entry.ends(now)
            left = f"the budget {entry.name} has {_left(entry, used)} left this {entry.period}"
            words = f"{left}; it begins anew at {ends.isoformat()}"
            raise LimitError(words, retry_after=(ends - now).total_seconds(), code="organisation_budget_exceeded")
        return used

    async def _tidied(self, accounts: EntryAccounts, now: datetime) -> EntryAccounts:
        """Return the accounts after settling the sealed runs and dropping the old reservations of unknown runs."""
        reserved = [pair for account in accounts.periods.values() for pair in account.reserved.items()]
        for run_id in dict.fromkeys(run_id for run_id, each in reserved if each.at <= now - GRACE):
            run = await self._find(run_id)
            if run is None:
                accounts = accounts.settle(run_id, Amount())
            elif run.sealed is not None:
                used = spending_of(run)
                accounts = accounts.settle(run_id, Amount(used.tokens, used.nano_usd))
        return accounts

    async def _settle(self, entry: OrganisationBudget, run_id: str, really: Amount) -> None:
        async def change(accounts: EntryAccounts) -> tuple[EntryAccounts, None]:
            return accounts.settle(run_id, really), None

        await self._update_accounts(entry, change)

    async def _release(self, entry: OrganisationBudget, run_id: str, now: datetime) -> None:
        """Return a reservation of the current period."""
        day = _day(entry, now)

        async def change(accounts: EntryAccounts) -> tuple[EntryAccounts, None]:
            return accounts.having(day, accounts.of(day).settle(run_id, Amount())), None

        await self._update_accounts(entry, change)

    async def _update_accounts(
        self, entry: OrganisationBudget, change: Callable[[EntryAccounts], Awaitable[tuple[EntryAccounts, Result]]]
    ) -> Result:
        key = f"budgets.{entry.name}.{entry.period}"
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            for _ in range(_ATTEMPTS):
                stored = await self._bus.kv_get(key)
                accounts = read_json(stored[0], EntryAccounts) if stored else EntryAccounts()
                changed, result = await change(accounts)
                if changed == accounts:
                    return result
                try:
                    await self._bus.kv_put(key, msgspec.json.encode(changed), revision=stored[1] if stored else 0)
                except ConflictError:
                    continue
                return result
        raise ConflictError(f"the budget account {key} changed {_ATTEMPTS} times under us")


def with_default(document: RunRequest | TaskContract, policy: BudgetsPolicy) -> RunRequest | TaskContract:
    """Return the document with the policy's budget for what its own budget leaves open."""
    own, default = document.budget or Budget(), policy.run_default
    tokens = default.tokens if own.tokens is None else own.tokens
    cost = default.cost_usd if own.cost_usd is None else own.cost_usd
    budget = replace(own, tokens=tokens, cost_usd=cost)
    return document if budget == own else replace(document, budget=budget)


def may_ask_models(document: RunRequest | TaskContract, *, routed: bool) -> bool:
    """Return whether a run may call models: a role has a route, or its executor is missing or calls one."""
    executor = document.executor
    return routed or executor is None or EXECUTOR_KINDS[executor.kind].asks_models


def _state_of(entry: OrganisationBudget, account: BudgetAccount, now: datetime) -> BudgetState:
    reserved = account.held
    return BudgetState(
        name=entry.name,
        period=entry.period,
        ends=timestamp(entry.ends(now)),
        repositories=entry.repositories,
        runs=len(account.reserved),
        spent_tokens=account.spent.tokens,
        reserved_tokens=reserved.tokens,
        tokens=entry.tokens,
        spent_usd=account.spent.nano_usd / BILLION,
        reserved_usd=reserved.nano_usd / BILLION,
        cost_usd=entry.cost_usd,
    )


def _check_budget(entry: OrganisationBudget, budget: Budget) -> None:
    missing = [name for name in ("tokens", "cost_usd") if getattr(entry, name) is not None and getattr(budget, name) is None]
    if missing:
        words = f"the budget {entry.name} limits {' and '.join(missing)}: set budget.{missing[0]} in the order"
        raise DeniedError(words, code="budget_missing")


def _left(entry: OrganisationBudget, used: Amount) -> str:
    tokens = None if entry.tokens is None else f"{number(max(0, entry.tokens - used.tokens))} tokens"
    money = None if entry.cost_usd is None else f"{number(max(0, nano(entry.cost_usd) - used.nano_usd) / BILLION)} USD"
    return " and ".join(each for each in (tokens, money) if each)


def _day(entry: OrganisationBudget, now: datetime) -> str:
    """Return the first day of the entry's period."""
    return f"{entry.starts(now):%Y-%m-%d}"
