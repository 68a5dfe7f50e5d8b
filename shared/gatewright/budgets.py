"""The arithmetic of budgets: what is more than a limit, and equal parts of it. Pure.

Money is counted in billionths of a dollar, so that sums are exact: ten times 0.1 is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Budget, Usage

BudgetName = Literal["wall_sec", "tokens", "cost_usd", "iterations"]
BILLION = 10**9
#: Seconds. No single command runs longer, even if a contract permits it; the kernel's own limits need a sane number.
LONGEST_COMMAND = 86_400.0


@dataclass(frozen=True, slots=True)
class Excess:
    """A budget that is used up, how much there was of it and how much was used."""

    budget: BudgetName
    limit: float
    used: float

    @property
    def words(self) -> str:
        """``1,200 of 1,000 tokens used``; not ``tokens: 1,200``, which looks like a secret."""
        return f"{number(self.used)} of {number(self.limit)} {self.budget} used"


class Spend(Protocol):
    """Called with all usage; ``BudgetMeter.spend`` and a task's ``context.spend`` have this form."""

    def __call__(
        self,
        *,
        tokens: int = 0,
        cost_usd: float = 0.0,
        iterations: int = 0,
        sent_bytes: int = 0,
        unpriced: bool = False,
        incomplete: bool = False,
    ) -> None:
        """``unpriced``: the price of some of it is not known; ``incomplete``: more may have been used than is reported.

        Raises BudgetError when that is more than there is.
        """


def spend_freely(
    *,
    tokens: int = 0,
    cost_usd: float = 0.0,
    iterations: int = 0,
    sent_bytes: int = 0,
    unpriced: bool = False,
    incomplete: bool = False,
) -> None:
    """Do nothing, for work without a budget of its own."""


def number(amount: float) -> str:
    """An amount for people: ``1,200``, ``0.25``."""
    return f"{amount:,.6f}".rstrip("0").rstrip(".")


def amount_words(used: float, unit: str, limit: float | None = None, *, least: bool = False) -> str:
    """Return an amount with its limit: ``1,200 of 2,000 tokens``; with ``least`` it is a lower bound: ``at least ...``,
    ``unknown``.

    With ``least``, 0 is an unknown amount: usage may have been missed.
    """
    if least and not used:
        return f"unknown {unit}" if limit is None else f"unknown {unit}, limit {number(limit)}"
    known = number(used) if limit is None else f"{number(used)} of {number(limit)}"
    return f"at least {known} {unit}" if least else f"{known} {unit}"


def nano(cost_usd: float) -> int:
    """US dollars in billionths."""
    return round(cost_usd * BILLION)


def part(amount: int, count: int, place: int) -> int:
    """Return one of ``count`` nearly equal parts of ``amount``; together they are the amount."""
    return amount // count + (1 if place < amount % count else 0)


def overdrawn(budget: Budget | None, usage: Usage) -> Excess | None:
    """The first part of a budget of which more was used than there is. Time is not looked at."""
    if budget is None:
        return None
    if budget.tokens is not None and usage.tokens > budget.tokens:
        return Excess("tokens", budget.tokens, usage.tokens)
    if budget.cost_usd is not None and nano(usage.cost_usd) > nano(budget.cost_usd):
        return Excess("cost_usd", budget.cost_usd, usage.cost_usd)
    if budget.iterations is not None and usage.iterations > budget.iterations:
        return Excess("iterations", budget.iterations, usage.iterations)
    return None


def command_seconds(contract: TaskContract) -> float:
    """Seconds that one command of the task may take."""
    return min(contract.timeout_retry.timeout_sec, LONGEST_COMMAND)
