"""The budget of a run: limits and usage, for programs and for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from gatewright.budgets import amount_words, number
from gatewright.contracts.run_status import BudgetState
from gatewright.contracts.vocabulary import Usage
from gatewright.run.spending import budget_of, elapsed_seconds, spending_of
from gatewright.run.state import Run
from gatewright.view.run_view import RunView


class Used(msgspec.Struct, frozen=True):
    """Usage of one resource.

    ``limit`` is None where there is no limit. ``at_least``: the real usage may be higher. ``used`` is None where it is unknown.
    """

    used: float | None
    limit: float | None
    at_least: bool = False


class BudgetEntry(msgspec.Struct, frozen=True):
    """The ``budget`` of ``show --json``."""

    wall_sec: Used
    tokens: Used
    cost_usd: Used
    iterations: Used


def budget_entry(view: RunView, now: datetime | None = None) -> BudgetEntry:
    """Return the usage of a run, with its duration until ``now``, or until its last event."""
    run = view.run
    limits, used = budget_of(run), spending_of(run)
    seconds = view.seconds if run.ended or now is None else elapsed_seconds(run, now)
    return BudgetEntry(
        wall_sec=Used(round(seconds, 3), limits.wall_sec),
        tokens=_used_amount(used.tokens, limits.tokens, least="tokens" in used.least),
        cost_usd=_used_amount(used.cost_usd, limits.cost_usd, least="cost_usd" in used.least),
        iterations=Used(used.iterations, limits.iterations),
    )


def budget_words(entry: BudgetEntry) -> str:
    """Format limits and usage as ``2.1 of 2 s; 120 of 1,000 tokens``; empty without limits or usage.

    Tokens and cost are included once some are used, also without a limit.
    """
    parts = [
        _limit_words(entry.wall_sec, "s", always=False),
        _limit_words(entry.tokens, "tokens", always=True),
        _limit_words(entry.cost_usd, "USD", always=True),
        _limit_words(entry.iterations, "iterations", always=False),
    ]
    return "; ".join(part for part in parts if part)


def usage_words(usage: Usage) -> str:
    """Format every kind of usage of a task."""
    amounts = (
        (usage.tokens, "tokens", usage.incomplete),
        (usage.cost_usd, "USD", usage.incomplete or usage.unpriced),
        (usage.iterations, "turns", False),
    )
    parts = (amount_words(amount, unit, least=least) for amount, unit, least in amounts if amount or least)
    return ", ".join(parts) or "nothing"


def _used_amount(amount: float, limit: float | None, *, least: bool) -> Used:
    return Used(None if least and not amount else amount, limit, at_least=least)


def _limit_words(used: Used, unit: str, *, always: bool) -> str:
    words = amount_words(used.used or 0, unit, used.limit, least=used.at_least)
    if used.limit is not None:
        return words
    return f"{words}, no limit" if always and (used.used or used.at_least) else ""


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """A bar of one resource. ``limit`` is None without a limit. ``words`` is the text alternative of the bar."""

    name: str
    used: float
    limit: float | None
    words: str

    @property
    def percent(self) -> int:
        """Return the used share of the limit in percent, at most 100; 0 without a limit."""
        return min(100, round(100 * self.used / self.limit)) if self.limit else 0


def budget_bars(run: Run, now: datetime) -> tuple[BudgetBar, ...]:
    """Return a bar for each resource that is limited or used. An ended run's time stops at its end."""
    limits, used = budget_of(run), spending_of(run)
    seconds = elapsed_seconds(run, datetime.fromisoformat(run.finished_at) if run.finished_at else now)
    amounts = (
        _Amount("Time", seconds, limits.wall_sec, "s"),
        _Amount("Tokens", used.tokens, limits.tokens, "tokens", "tokens" in used.least),
        _Amount("Cost", used.cost_usd, limits.cost_usd, "USD", "cost_usd" in used.least),
        _Amount("Rounds and turns", used.iterations, limits.iterations, "iterations"),
    )
    return tuple(_bars(amounts))


def organisation_bars(state: BudgetState) -> tuple[BudgetBar, ...]:
    """Return a bar for each limit of an organisation's budget, with usage and reservations."""
    amounts = (
        ("Tokens", state.spent_tokens, state.reserved_tokens, state.tokens, "tokens"),
        ("Cost", state.spent_usd, state.reserved_usd, state.cost_usd, "USD"),
    )
    return tuple(
        BudgetBar(name, spent + held, limit, f"{amount_words(round(spent + held, 3), unit, limit)}, {number(held)} reserved")
        for name, spent, held, limit, unit in amounts
        if limit is not None
    )


class _Amount(NamedTuple):
    name: str
    used: float
    limit: float | None
    unit: str
    least: bool = False


def _bars(amounts: tuple[_Amount, ...]) -> Iterator[BudgetBar]:
    for each in amounts:
        words = amount_words(round(each.used, 3), each.unit, each.limit, least=each.least)
        if each.limit is not None:
            yield BudgetBar(each.name, each.used, each.limit, words)
        elif each.used or each.least:
            yield BudgetBar(each.name, each.used, None, f"{words}, no limit")
