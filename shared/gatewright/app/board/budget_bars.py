"""What a run has used of what it may use, as bars. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gatewright.budgets import amount_words
from gatewright.run.spending import budget_of, elapsed, spent
from gatewright.run.state import Run


@dataclass(frozen=True, slots=True)
class BudgetBar:
    """``limit`` None: nothing limits it. ``words``: what people read in the bar's place."""

    name: str
    used: float
    limit: float | None
    words: str

    @property
    def percent(self) -> int:
        """How much of the limit is used, 100 at most; 0 without a limit."""
        return min(100, round(100 * self.used / self.limit)) if self.limit else 0


def budget_bars(run: Run, now: datetime) -> tuple[BudgetBar, ...]:
    """One bar for each thing that is limited, or of which something was used; the time of an ended run until its end."""
    limits, used = budget_of(run), spent(run)
    seconds = elapsed(run, datetime.fromisoformat(run.finished_at) if run.finished_at else now)
    amounts = (
        _Amount("Time", seconds, limits.wall_sec, "s"),
        _Amount("Tokens", used.tokens, limits.tokens, "tokens", "tokens" in used.least),
        _Amount("Cost", used.cost_usd, limits.cost_usd, "USD", "cost_usd" in used.least),
        _Amount("Rounds and turns", used.iterations, limits.iterations, "iterations"),
    )
    return tuple(_bars(amounts))


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
