"""What a run has used up of its budget, and what is left of it: by the events and the time alone. Pure.

Used is what has been reported. The arithmetic is in ``gatewright/budgets.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from gatewright.budgets import BILLION, Excess, nano, part
from gatewright.contracts.vocabulary import MAX_INTEGER, Budget, Usage
from gatewright.run.state import Run, RunTask
from gatewright.worker_role import asks_models

#: No task is handed less time than this, and none a budget of no time.
_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums. ``iterations``: rounds of the fix loop, or turns where executors counted more of them in a round."""

    tokens: int = 0
    nano_usd: int = 0
    iterations: int = 0
    #: Some of it was used by models without a known price: the money is only what is known.
    unpriced: bool = False
    #: More may have been used than was reported: replies were cut off, or workers ended before they could report.
    incomplete: bool = False

    @property
    def least(self) -> tuple[str, ...]:
        """Which sums are lower bounds, by the names of ``totals``."""
        return (("tokens",) if self.incomplete else ()) + (("cost_usd",) if self.incomplete or self.unpriced else ())

    @property
    def cost_usd(self) -> float:
        return self.nano_usd / BILLION


def budget_of(run: Run) -> Budget:
    """The run's budget: the contract's, until there is one the request's; without limits where neither sets any."""
    ordered = run.contract or run.request
    return (ordered.budget if ordered is not None else None) or Budget()


def elapsed_seconds(run: Run, now: datetime) -> float:
    """Seconds since the run was accepted, waiting included; but for the time in which it waited for a person."""
    waits = (now - datetime.fromisoformat(run.parked_at)).total_seconds() if run.parked_at else 0.0
    return max(0.0, (now - datetime.fromisoformat(run.created_at)).total_seconds() - run.parked_seconds - max(0.0, waits))


def usage_of(tasks: Iterable[RunTask]) -> Spent:
    """What the tasks have reported, every delivery of each; ``iterations`` are turns here."""
    reported = [usage for task in tasks for usage in task.usage.values()]
    return Spent(
        sum(usage.tokens for usage in reported),
        sum(nano(usage.cost_usd) for usage in reported),
        sum(usage.iterations for usage in reported),
        any(usage.unpriced for usage in reported),
        any(usage.incomplete for usage in reported),
    )


def spending_of(run: Run) -> Spent:
    """What the run has used up so far."""
    sums = usage_of(run.tasks.values())
    rounds = sum(max(_turns(run, attempt), 1) for attempt in range(1, run.attempt + 1) if _was_worked_on(run, attempt))
    incomplete = sums.incomplete or any(_has_unreported_use(run, task) for task in run.tasks.values())
    return Spent(sums.tokens, sums.nano_usd, max(rounds, sums.iterations), sums.unpriced, incomplete)


def lower_bounds(run: Run) -> tuple[str, ...]:
    """Which of the ``totals`` are lower bounds at this moment: also those to which tasks at work are adding."""
    used = spending_of(run)
    at_work = any(task.status == "RUNNING" and _may_ask(task) for task in run.tasks.values())
    return replace(used, incomplete=used.incomplete or at_work).least


def awaited_accounts(run: Run) -> tuple[str, ...]:
    """The tasks that the end of the run has interrupted while they may have asked models, and that have not reported since."""
    if not run.ended or run.sealed is not None:
        return ()
    return tuple(task.task_id for task in run.tasks.values() if _cut_short(task))


def totals(run: Run, now: datetime) -> dict[str, int | float]:
    """What the run has used up of everything that a budget may bound."""
    used = spending_of(run)
    return {
        "wall_sec": round(elapsed_seconds(run, now), 3),
        "tokens": used.tokens,
        "cost_usd": used.cost_usd,
        "iterations": used.iterations,
    }


def excess(run: Run, now: datetime) -> Excess | None:
    """The first budget of which more was used than there is; of time: all that there is."""
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
    """The budget because of which no worker may be given a task of this attempt: nothing is left of it, and some was used."""
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
    """What is left, divided among ``count`` tasks that are given out together; None where the run has no budget.

    Time is not divided: they run side by side. Tokens and money are, to the last token: together they are never more than what
    is left. Every task has one turn at least.
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


def most(known: Usage | None, said: Usage) -> Usage:
    """Reports say how much it is all told, and may come late or twice: the most that was ever said counts."""
    if known is None:
        return said
    return Usage(
        tokens=min(max(known.tokens, said.tokens), MAX_INTEGER),
        cost_usd=max(known.cost_usd, said.cost_usd),
        iterations=max(known.iterations, said.iterations),
        sent_bytes=max(known.sent_bytes, said.sent_bytes),
        unpriced=known.unpriced or said.unpriced,
        incomplete=known.incomplete or said.incomplete,
        delivery=said.delivery,
    )


def _may_ask(task: RunTask) -> bool:
    """Whether models are asked for a task: its executor cannot do without, or its role has reported a turn."""
    return asks_models(task.role, task.contract) or bool(task.usage)


def _cut_short(task: RunTask) -> bool:
    """Whether a task of an ended run was at work, and nothing was heard of how that ended."""
    ended = any(each.why == "cancelled" for each in task.interrupted.values())
    return task.status == "RUNNING" and _may_ask(task) and not ended


def _has_unreported_use(run: Run, task: RunTask) -> bool:
    """Whether a delivery of a task asked models, and nothing tells what it had used in the end."""
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
    """For the tasks of an attempt: what earlier ones and the turns of this one have not used."""
    before = sum(max(_turns(run, earlier), 1) for earlier in range(1, attempt))
    return limit - before - _turns(run, attempt)
