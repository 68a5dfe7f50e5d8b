"""7. No budget was exceeded: an answer that was too late, or cost too much, was not accepted."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, just_before
from gatewright.rules.endings import waiting_for
from gatewright.run import events as e
from gatewright.run.spending import budget_of, excess, lower_bounds, most, totals

BUDGET = "budget_contradicts"
#: Times are recorded in milliseconds; whole numbers are compared exactly.
_ROUNDING = 0.002


def check_budgets(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check budgets.

    1. Every accepted answer was within the budget.
    2. A run that ended because of a budget had exhausted it.
    3. Recorded usage only increases.
    """
    for moment in replayed.moments:
        match moment.payload:
            case e.TaskFinished(accepted=False):
                pass
            case (
                e.ContractCompiled() | e.PlanAccepted() | e.TaskFinished() | e.ReviewReceived() | e.TestsReceived() | e.Landed()
            ):
                yield from _budget_contradictions(moment)  # 1
            case e.BudgetExceeded():
                yield from _used_up(moment, moment.payload)  # 2
            case e.UsageReported(task_id=task_id, usage=usage):
                known = moment.before.tasks[task_id].usage.get(usage.delivery) if task_id in moment.before.tasks else None
                if most(known, usage) == known:  # 3
                    words = f"{task_id} has used no more than was known"
                    yield moment.contradiction(BUDGET, layout.EVENTS, layout.EVENTS, words)
            case _:
                pass


def _budget_contradictions(moment: Moment) -> Iterator[Contradiction]:
    when = just_before(moment.record.ts)
    gone = excess(moment.whole, when) if when is not None and just_before(moment.before.created_at) is not None else None
    # A landing may finish after the deadline: nothing starts after the wall time has expired, and nothing is rolled back.
    if gone is not None and not (gone.budget == "wall_sec" and isinstance(moment.payload, e.Landed)):
        words = f"{moment.record.event_type} counted, and by then {gone.words}"
        yield moment.contradiction(BUDGET, layout.EVENTS, layout.CONTRACT, words)


def _used_up(moment: Moment, event: e.BudgetExceeded) -> Iterator[Contradiction]:
    run = moment.whole
    task = run.tasks.get(event.task_id or "")
    limits = budget_of(run) if event.task_id is None else task.contract.budget if task and task.contract else None
    limit = getattr(limits, event.budget, None)
    if limit != event.limit or event.used < event.limit:
        words = f"{event.budget}: {event.used:g} of {event.limit:g} was used up, and the limit is {limit}"
        yield moment.contradiction(BUDGET, layout.EVENTS, layout.CONTRACT, words)
    when = moment.when
    if when is None or just_before(run.created_at) is None:
        return
    spent = totals(run, when)
    if event.totals.keys() != spent.keys() or any(abs(event.totals[each] - spent[each]) > _ROUNDING for each in spent):
        yield moment.contradiction(
            BUDGET, layout.EVENTS, layout.EVENTS, f"{event.totals} was used of everything, and it is {spent}"
        )
    if event.at_least != (least := lower_bounds(run)):
        words = f"{event.at_least} of the totals are lower bounds, and it is {least}"
        yield moment.contradiction(BUDGET, layout.EVENTS, layout.EVENTS, words)
    if event.waiting != (waiting := waiting_for(run, event.budget)):
        words = f"the run waited {event.waiting or 'for nothing'}, and it was {waiting or 'at nothing'}"
        yield moment.contradiction(BUDGET, layout.EVENTS, layout.EVENTS, words)
