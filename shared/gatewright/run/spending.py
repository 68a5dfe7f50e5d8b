"""Budget accounting of a run from its events and the time: usage and remaining budget. Pure.

Usage is what was reported. The arithmetic is in ``gatewright/budgets.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from gatewright.budgets import BILLION, Excess, nano, part
from gatewright.contracts.vocabulary import MAX_INTEGER, Budget, Usage
from gatewright.run.state import Run, RunTask
from gatewright.worker_role import asks_models

#: Minimum time budget of a task.
_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Spent:
    """Totals. ``iterations``: fix rounds, or turns where executors counted more of them in a round."""

    tokens: int = 0
    nano_usd: int = 0
    iterations: int = 0
    #: Some models have no known price: the cost has only the known part.
    unpriced: bool = False
    #: Actual usage may be higher: replies were truncated, or workers ended before they could report.
    incomplete: bool = False

    @property
    def least(self) -> tuple[str, ...]:
        """Names of ``totals`` that are lower bounds."""
        return (("tokens",) if self.incomplete else ()) + (("cost_usd",) if self.incomplete or self.unpriced else ())

    @property
    def cost_usd(self) -> float:
        return self.nano_usd / BILLION


def budget_of(run: Run) -> Budget:
    """Return the run's budget: the contract's, or the request's before there is one; unlimited where neither sets any."""
    ordered = run.contract or run.request
    return (ordered.budget if ordered is not None else None) or Budget()


def elapsed_seconds(run: Run, now: datetime) -> float:
    """Return the seconds since acceptance, without the time in which the run waited for a person."""
    waits = (now - datetime.fromisoformat(run.parked_at)).total_seconds() if run.parked_at else 0.0
    return max(0.0, (now - datetime.fromisoformat(run.created_at)).total_seconds() - run.parked_seconds - max(0.0, waits))


def usage_of(tasks: Iterable[RunTask]) -> Spent:
    """Return the usage that tasks reported, over all deliveries; ``iterations`` are turns here."""
    reported = [usage for task in tasks for usage in task.usage.values()]
    return Spent(
        sum(usage.tokens for usage in reported),
        sum(nano(usage.cost_usd) for usage in reported),
        sum(usage.iterations for usage in reported),
        any(usage.unpriced for usage in reported),
        any(usage.incomplete for usage in reported),
    )


def spending_of(run: Run) -> Spent:
    """Return the usage of the run so far."""
    sums = usage_of(run.tasks.values())
    rounds = sum(max(_turns(run, attempt), 1) for attempt in range(1, run.attempt + 1) if _was_worked_on(run, attempt))
    incomplete = sums.incomplete or any(_has_unreported_use(run, task) for task in run.tasks.values())
    return Spent(sums.tokens, sums.nano_usd, max(rounds, sums.iterations), sums.unpriced, incomplete)


def lower_bounds(run: Run) -> tuple[str, ...]:
    """Return which ``totals`` are lower bounds now, including those that running tasks increase."""
    used = spending_of(run)
    at_work = any(task.status == "RUNNING" and _may_ask(task) for task in run.tasks.values())
    return replace(used, incomplete=used.incomplete or at_work).least


def awaited_accounts(run: Run) -> tuple[str, ...]:
    """Return the tasks that the end of the run interrupted, that may have called models, and that have not reported since."""
    if not run.ended or run.sealed is not None:
        return ()
    return tuple(task.task_id for task in run.tasks.values() if _cut_short(task))


def totals(run: Run, now: datetime) -> dict[str, int | float]:
    """Return the run's usage of everything that a budget may limit."""
    used = spending_of(run)
    return {
        "wall_sec": round(elapsed_seconds(run, now), 3),
        "tokens": used.tokens,
        "cost_usd": used.cost_usd,
        "iterations": used.iterations,
    }


def excess(run: Run, now: datetime) -> Excess | None:
    """Return the first exceeded budget; time is exceeded when it is exhausted."""
    limits, used = budget_of(run), spending_of(run)
    seconds = elapsed_seconds(run, now)
    if limits.wall_sec is not None and seconds >= limits.wall_sec:
        return Excess("wall_sec", limits.wall_sec, round(seconds, 3))
    if limits.tokens is not None and used.tokens > limits.tokens:
        return Excess("tokens", limits.tokens, used.tokens)
    if limits.cost_usd is not None and used.nano_usd > nano(limits.cost_usd):
        return Excess("cost_usd", limits.cost_usd, used.cost_usd)
    if limits.iterations is not None and used.iterations > limits.iterations:
        return Excess("iterations", limits.iterations, used.iterations)
    return None


def used_up(run: Run, now: datetime, attempt: int) -> Excess | None:
    """Return the exhausted budget that prevents further worker tasks of this attempt: nothing is left, and some was used."""
    limits, used = budget_of(run), spending_of(run)
    if (gone := excess(run, now)) is not None:
        return gone
    if limits.tokens is not None and 0 < limits.tokens <= used.tokens:
        return Excess("tokens", limits.tokens, used.tokens)
    if limits.cost_usd is not None and 0 < nano(limits.cost_usd) <= used.nano_usd:
        return Excess("cost_usd", limits.cost_usd, used.cost_usd)
    if limits.iterations is not None and _iterations_left(run, limits.iterations, attempt) < 1:
        return Excess("iterations", limits.iterations, max(used.iterations, limits.iterations))
    return None


def shares(run: Run, now: datetime, count: int) -> tuple[Budget | None, ...]:
    """Divide the remaining budget among ``count`` tasks dispatched together; None for a run without a budget.

    Time is not divided, since the tasks run in parallel. Tokens and cost are divided exactly: their sum is never more than the
    rest. Every task has at least one turn.
    """
    limits, used = budget_of(run), spending_of(run)
    if limits == Budget():
        return (None,) * count
    seconds = None if limits.wall_sec is None else max(_LEAST_SECONDS, limits.wall_sec - elapsed_seconds(run, now))
    tokens = None if limits.tokens is None else max(0, limits.tokens - used.tokens)
    money = None if limits.cost_usd is None else max(0, nano(limits.cost_usd) - used.nano_usd)
    turns = None if limits.iterations is None else _iterations_left(run, limits.iterations, run.attempt)
    return tuple(
        Budget(
            wall_sec=None if seconds is None else round(seconds, 3),
            tokens=None if tokens is None else part(tokens, count, place),
            cost_usd=None if money is None else part(money, count, place) / BILLION,
            iterations=None if turns is None else max(1, part(turns, count, place)),
        )
        for place in range(count)
    )


def most(known: Usage | None, reported: Usage) -> Usage:
    """Return the maximum of two usage reports: they are cumulative, and may arrive late or twice."""
    if known is None:
        return reported
    return Usage(
        tokens=min(max(known.tokens, reported.tokens), MAX_INTEGER),
        cost_usd=max(known.cost_usd, reported.cost_usd),
        iterations=max(known.iterations, reported.iterations),
        sent_bytes=max(known.sent_bytes, reported.sent_bytes),
        unpriced=known.unpriced or reported.unpriced,
        incomplete=known.incomplete or reported.incomplete,
        delivery=reported.delivery,
    )


def _may_ask(task: RunTask) -> bool:
    """Return whether a task may call models: its executor requires that, or its role has reported a turn."""
    return asks_models(task.role, task.contract) or bool(task.usage)


def _cut_short(task: RunTask) -> bool:
    """Return whether a task of an ended run was in progress without a final report."""
    ended = any(each.why == "cancelled" for each in task.interrupted.values())
    return task.status == "RUNNING" and _may_ask(task) and not ended


def _has_unreported_use(run: Run, task: RunTask) -> bool:
    """Return whether a delivery of a task called models and its final usage is unknown."""
    if run.ended and _cut_short(task):
        return True
    if task.result is None or task.result.usage is None:
        return False
    return any(delivery not in {*task.interrupted, task.result.usage.delivery} for delivery in task.usage)


def _turns(run: Run, attempt: int) -> int:
    return usage_of(task for task in run.tasks.values() if task.attempt == attempt).iterations


def _was_worked_on(run: Run, attempt: int) -> bool:
    return any(task.role == "worker" and task.attempt == attempt and task.status != "PENDING" for task in run.tasks.values())


def _iterations_left(run: Run, limit: int, attempt: int) -> int:
    """Return the remaining iterations for the tasks of an attempt, after earlier attempts and turns of this one."""
    before = sum(max(_turns(run, earlier), 1) for earlier in range(1, attempt))
    return limit - before - _turns(run, attempt)
