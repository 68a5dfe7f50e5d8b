"""Measures the usage of one piece of work, and ends it as soon as it exceeds its budget.

The work reports its own usage (``spend``), since only it knows. Time is measured in any case. Not thread-safe.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine
from typing import Any, NamedTuple, TypeVar

from gatewright.budgets import BILLION, Excess, nano, overdrawn
from gatewright.contracts import RequestTask, SummonsTask, TaskContract
from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import MAX_INTEGER, Budget, Document, Usage
from gatewright.errors import BudgetError, MalformedError

T = TypeVar("T")

#: Seconds for cancelled work to clean up.
GRACE = 0.5
#: Seconds for which the gatekeeper's word that the time is up is waited for; who does not hear it stops without.
LATE = 2.0

#: A report is due when this part of any limit has been used since the last one: what a crash can make forgotten.
STEP = 1 / 20
#: Where a sum is cut off; no budget is larger.
_MOST_NANO = 10**9 * BILLION


def budget_of(task: Document) -> Budget:
    """Return the budget of a task."""
    if isinstance(task, RequestTask):
        return task.request.budget or Budget()
    return (task.budget if isinstance(task, TaskContract | SummonsTask) else None) or Budget()


def leave_of(task: Document) -> TransferLeave | None:
    """Return what a task may send to model providers."""
    return task.transfer if isinstance(task, TaskContract | SummonsTask) else None


class _Counts(NamedTuple):
    tokens: int
    nano_usd: int
    iterations: int
    sent: int


class BudgetMeter:
    """One delivery of one task. ``delivery`` is its name among the deliveries of that task.

    ``most_sent``: bytes that the task may send; not held to here, but reported by steps like a budget.
    """

    def __init__(self, budget: Budget | None = None, *, delivery: str = "1", most_sent: int | None = None) -> None:
        self.budget = budget or Budget()
        self.excess: Excess | None = None
        self.report_due = asyncio.Event()
        self._delivery = delivery
        self._tokens = self._nano_usd = self._iterations = self._sent = 0
        self._unpriced = self._incomplete = False
        self._most_sent = most_sent
        self._reported = _Counts(0, 0, 0, 0)
        self._reported_flags = (False, False)
        self._over = asyncio.Event()
        self._doing: asyncio.Future[Any] | None = None
        self._work_notified = False

    @property
    def usage(self) -> Usage | None:
        """Usage so far; None for no usage."""
        if not any(self._counts()):
            return None
        return self.account

    @property
    def account(self) -> Usage:
        """Usage so far, even if it is zero."""
        cost = self._nano_usd / BILLION
        return Usage(
            tokens=self._tokens,
            cost_usd=cost,
            iterations=self._iterations,
            sent_bytes=self._sent,
            unpriced=self._unpriced,
            incomplete=self._incomplete,
            delivery=self._delivery,
        )

    def spend(
        self,
        *,
        tokens: int = 0,
        cost_usd: float = 0.0,
        iterations: int = 0,
        sent_bytes: int = 0,
        unpriced: bool = False,
        incomplete: bool = False,
    ) -> None:
        """So much was used since the last call; ``unpriced``: by a model without a known price, so that its cost is unknown.
        ``incomplete``: a call was sent whose use is not fully known.

        Raises BudgetError when that is more than there is: stop at once (the work is ended even if it does not). Raises
        MalformedError for amounts below 0, and for money that is no finite number.
        """
        if min(tokens, iterations, sent_bytes) < 0 or not 0 <= cost_usd < math.inf:
            raise MalformedError(f"no task uses {tokens} tokens, {cost_usd} USD, {iterations} turns", code="usage_invalid")
        self._tokens = min(self._tokens + tokens, MAX_INTEGER)
        self._nano_usd = min(self._nano_usd + nano(min(cost_usd, 1e9)), _MOST_NANO)
        self._iterations = min(self._iterations + iterations, MAX_INTEGER)
        self._sent = min(self._sent + sent_bytes, MAX_INTEGER)
        self._unpriced = self._unpriced or unpriced
        self._incomplete = self._incomplete or incomplete
        usage = self.usage
        if self.excess is not None:
            self._cancel()  # it was cancelled, and continues
        elif usage is not None and (gone := overdrawn(self.budget, usage)) is not None:
            self._exceed(gone)
            # The error unwinds the work itself; from a part of it that runs beside it, it does not get there.
            self._work_notified = self._doing is not None and asyncio.current_task() is self._doing
        self._check_budget()
        if self._is_a_step():
            self.report_due.set()

    async def within(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``. Cancel it, and wait for its end, when its budget is exceeded or its time is long over.

        Raises:
            BudgetError: in that case, even if the work itself succeeded or failed.
        """
        doing = asyncio.ensure_future(work)
        self._doing = doing
        over = asyncio.ensure_future(self._over.wait())
        seconds = self.budget.wall_sec
        try:
            limit = None if seconds is None else seconds + LATE
            await asyncio.wait({doing, over}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._work_notified:
                await asyncio.wait({doing}, timeout=GRACE)
            if seconds is not None and not doing.done() and self.excess is None:
                self._exceed(Excess("wall_sec", seconds, seconds + LATE))
        finally:
            over.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait({doing})
            if not doing.cancelled():
                doing.exception()  # looked at: that the budget was used up, or that we are cancelled, counts more
        self._check_budget()
        return doing.result()

    def unreported_usage(self) -> Usage | None:
        """Return the usage if it exceeds the reported usage."""
        flags = (self._unpriced, self._incomplete)
        return None if (self._counts(), flags) == (self._reported, self._reported_flags) else self.usage

    def reported(self, usage: Usage) -> None:
        """So much is known where it counts."""
        self._reported = _Counts(usage.tokens, nano(usage.cost_usd), usage.iterations, usage.sent_bytes)
        self._reported_flags = (usage.unpriced, usage.incomplete)

    def _counts(self) -> _Counts:
        return _Counts(self._tokens, self._nano_usd, self._iterations, self._sent)

    def _is_a_step(self) -> bool:
        """Return whether a report is due.

        The first turn is reported, so that a provider call is known even if the work is lost.
        """
        if self._iterations and not self._reported.iterations:
            return True
        budget = self.budget
        money = None if budget.cost_usd is None else nano(budget.cost_usd)
        limits = (budget.tokens, money, budget.iterations, self._most_sent)
        pairs = zip(self._counts(), self._reported, limits, strict=True)
        return any(limit is not None and now - reported >= max(1, limit * STEP) for now, reported, limit in pairs)

    def _exceed(self, excess: Excess) -> None:
        if self.excess is None:
            self.excess = excess
            self._over.set()

    def _cancel(self) -> None:
        if self._doing is not None:
            self._doing.cancel()

    def _check_budget(self) -> None:
        if self.excess is not None:
            raise BudgetError(self.excess.words)
