"""What a run has used of what it may use, as bars. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from gatewright.budgets import number
from gatewright.ledger.run import Run
from gatewright.ledger.spending import budget_of, elapsed, spent


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
        ("Time", seconds, limits.wall_sec, "s"),
        ("Tokens", used.tokens, limits.tokens, "tokens"),
        ("Cost", used.cost_usd, limits.cost_usd, "USD"),
        ("Rounds and turns", used.iterations, limits.iterations, "iterations"),
    )
    return tuple(_bars(amounts))


def _bars(amounts: tuple[tuple[str, float, float | None, str], ...]) -> Iterator[BudgetBar]:
    for name, used, limit, unit in amounts:
        if limit is not None:
            yield BudgetBar(name, used, limit, f"{number(round(used, 3))} of {number(limit)} {unit}")
        elif used:
            yield BudgetBar(name, used, None, f"{number(round(used, 3))} {unit}, no limit")
