"""Every dispatched task follows from the run: its contract, its pool and its share of the budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec.structs import replace

from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import TaskContract
from gatewright.contracts.people.revision_orders import FoundFault
from gatewright.contracts.vocabulary import Budget
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.order_artifacts.hidden_acceptance import shown_to_makers
from gatewright.rules import task_contracts
from gatewright.rules.repairs import revision_order
from gatewright.rules.rounds import curable, refused_by
from gatewright.run import events as e
from gatewright.run.spending import shares
from gatewright.run.state import Run, RunTask

TASK = "task_contradicts"
PLAN = "plan_contradicts"
#: Tolerance in seconds for shares of time, which are recorded in milliseconds.
_ROUNDING = 0.002
#: Second place of a contradiction in a field that does not follow from the run's contract.
_AGAINST = dict.fromkeys(("task_id", "assigned_agent", "attempt", "candidate", "mutation", "budget"), layout.EVENTS)


def check_tasks(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check tasks.

    1. Contract, pool and budget of every dispatched task.
    2. The contracts of every fix round.
    """
    for (role, _), batch in groupby(replayed.moments, _batch):
        if role is not None:
            yield from _given_out(tuple(batch))  # 1
    for moment in replayed.moments:
        if isinstance(moment.payload, e.FixOrdered):
            yield from _ordered_again(moment, moment.payload)  # 2


def _batch(moment: Moment) -> tuple[str | None, str]:
    """Return the batch key: consecutive tasks of one role share the remaining budget."""
    return (moment.payload.role, moment.record.ts) if isinstance(moment.payload, e.TaskDispatched) else (None, "")


def _given_out(batch: tuple[Moment, ...]) -> Iterator[Contradiction]:
    before, when = batch[0].whole, batch[0].when
    for place, moment in enumerate(batch):
        if not isinstance(moment.payload, e.TaskDispatched):
            continue
        path, event = layout.task_contract(moment.payload.task_id), moment.payload
        share = shares(before, when, len(batch))[place] if when is not None and event.role in _SHARED else None
        pool = moment.whole.pools.get(event.role, DEFAULT_POOL)
        if event.pool != pool:
            yield moment.contradiction(
                TASK, path, layout.EVENTS, f"it was dispatched to the pool {event.pool}, but the run uses {pool}"
            )
        if event.role == "pm" or (event.role == "worker" and before.kind.plans):
            if event.contract is not None:
                words = f"the {event.role} received its own contract although the run has the order"
                yield moment.contradiction(TASK, path, layout.EVENTS, words)
            if not _same_share(event.budget, share):
                yield moment.contradiction(
                    TASK, path, layout.EVENTS, f"its budget is {event.budget}, but its share was {share}"
                )
            continue
        yield from _contract(moment, event, share)


#: Roles whose tasks get a share of the remaining budget.
_SHARED = frozenset({"worker", "reviewer", "testrunner"})


def _contract(moment: Moment, event: e.TaskDispatched, share: Budget | None) -> Iterator[Contradiction]:
    path = layout.task_contract(event.task_id)
    expected = _expected_contract(moment.before, event)
    if event.contract is None or expected is None:
        yield moment.contradiction(TASK, path, layout.CONTRACT, f"the {event.role} lacks a contract, or has one without need")
        return
    if share is not None:
        kept = event.contract.budget if _same_share(event.contract.budget, share) else share
        expected = replace(expected, budget=kept)
    if event.budget is not None or event.task_id != expected.task_id:
        yield moment.contradiction(
            TASK, path, layout.EVENTS, f"the {event.role}'s task {event.task_id} is not {expected.task_id}"
        )
    for name in _unlike(event.contract, expected):
        against = layout.PATCH if name == "inputs" and _other_artifacts(event.contract, expected) else layout.CONTRACT
        words = f"the {event.role}'s {name} does not follow from the run's contract and state"
        yield moment.contradiction(TASK, path, _AGAINST.get(name, against), words)


def _expected_contract(run: Run, event: e.TaskDispatched) -> TaskContract | None:
    """Return the contract of a task as the decider makes it; ``run`` is seen from the candidate of the task."""
    contract, patch = run.contract, run.candidate.patch if run.candidate is not None else ""
    if contract is None or (event.role not in {"techlead", "worker"} and layout.digest_of(patch) is None):
        return None
    match event.role:
        case "techlead":
            return task_contracts.planning(contract, run.run_id)
        case "worker":
            return task_contracts.searching(contract, run.run_id)
        case "reviewer":
            return task_contracts.reviewing(run, contract, patch)
        case "testrunner":
            return task_contracts.testing(run, contract, patch)
        case _:
            return None


def _other_artifacts(given: TaskContract, expected: TaskContract) -> bool:
    return given.inputs.artifacts != expected.inputs.artifacts


def _same_share(given: Budget | None, share: Budget | None) -> bool:
    """Return whether a budget equals the share, apart from rounding to milliseconds."""
    if given is None or share is None or given.wall_sec is None or share.wall_sec is None:
        return given == share
    near = abs(given.wall_sec - share.wall_sec) <= _ROUNDING
    return near and replace(given, wall_sec=None) == replace(share, wall_sec=None)


def _ordered_again(moment: Moment, event: e.FixOrdered) -> Iterator[Contradiction]:
    run = moment.whole
    if run.contract is None:
        return
    plan = layout.task_plan(run.plan.task_id) if run.plan is not None else layout.EVENTS
    expected = {}
    for task, found in _shown_faults(run, event.reason):
        if task.contract is not None:
            shown = shown_to_makers(found, run.contract)
            before = replace(task.contract, budget=run.contract.budget)
            order = task_contracts.fixing(before, event.attempt, shown, task.result)
            expected[order.task_id] = order
    ordered = {contract.task_id: contract for contract in event.contracts}
    if list(ordered) != list(expected) or len(ordered) != len(event.contracts):
        yield moment.contradiction(PLAN, layout.EVENTS, plan, "the round of fixing is not of the plan's shards")
        return
    for task_id, contract in ordered.items():
        path, against = layout.task_contract(task_id), layout.task_contract(expected[task_id].parent_task_id or "")
        for name in _unlike(contract, expected[task_id]):
            yield moment.contradiction(
                TASK, path, against, f"its {name} is not that of the attempt before, and of what refused it"
            )


def _shown_faults(run: Run, reason: str) -> list[tuple[RunTask, FoundFault]]:
    """Return the tasks that a fix round repeats, each with the fault shown to its maker."""
    order = revision_order(run)
    if order is not None and order.reason == reason:
        return [(task, order) for task in run.workers()]
    if run.candidates:
        return list(curable(run))
    found = refused_by(run)
    return [(task, found) for task in run.workers()] if found is not None else []


def _unlike(contract: TaskContract, expected: TaskContract) -> Iterator[str]:
    for name in TaskContract.__struct_fields__:
        if getattr(contract, name) != getattr(expected, name):
            yield name
