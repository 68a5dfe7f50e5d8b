"""A run's budget for programs and for people: how much of each there is, and how much was used. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatewright.app.cli.runs.view import RunView
from gatewright.budgets import amount_words
from gatewright.contracts.vocabulary import Usage
from gatewright.run.spending import budget_of, elapsed, spent


class Used(msgspec.Struct, frozen=True):
    """``limit`` is None where there is none. ``at_least``: more may have been used; ``used`` is None where nothing is known."""

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
    """What the run has used; its time until ``now``, or until its last event."""
    run = view.run
    limits, used = budget_of(run), spent(run)
    seconds = view.seconds if run.ended or now is None else elapsed(run, now)
    return BudgetEntry(
        wall_sec=Used(round(seconds, 3), limits.wall_sec),
        tokens=_used(used.tokens, limits.tokens, least="tokens" in used.least),
        cost_usd=_used(used.cost_usd, limits.cost_usd, least="cost_usd" in used.least),
        iterations=Used(used.iterations, limits.iterations),
    )


def budget_words(entry: BudgetEntry) -> str:
    """``2.1 of 2 s; 120 of 1,000 tokens``: what is limited, and what was used of tokens and money; empty where nothing is."""
    parts = [
        _words(entry.wall_sec, "s", always=False),
        _words(entry.tokens, "tokens", always=True),
        _words(entry.cost_usd, "USD", always=True),
        _words(entry.iterations, "iterations", always=False),
    ]
    return "; ".join(part for part in parts if part)


def usage_words(usage: Usage) -> str:
    """What a task has used, of everything that it used."""
    amounts = (
        (usage.tokens, "tokens", usage.incomplete),
        (usage.cost_usd, "USD", usage.incomplete or usage.unpriced),
        (usage.iterations, "turns", False),
    )
    told = (amount_words(amount, unit, least=least) for amount, unit, least in amounts if amount or least)
    return ", ".join(told) or "nothing"


def _used(amount: float, limit: float | None, *, least: bool) -> Used:
    return Used(None if least and not amount else amount, limit, at_least=least)


def _words(used: Used, unit: str, *, always: bool) -> str:
    words = amount_words(used.used or 0, unit, used.limit, least=used.at_least)
    if used.limit is not None:
        return words
    return f"{words}, no limit" if always and (used.used or used.at_least) else ""
