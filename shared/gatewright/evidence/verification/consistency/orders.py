"""3. Contract and plan order the same: nothing was added between order and work."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, moment_of
from gatewright.rules.contracts import differences, unlike_compiled
from gatewright.rules.reports.artifacts import broken_by_consultation
from gatewright.rules.reports.times import broken_by_times
from gatewright.rules.shards import attempt_id, broken_by_candidates, broken_by_count, broken_by_shard, broken_by_split
from gatewright.run import events as e
from gatewright.run.state import Run

CONTRACT = "contract_contradicts"
PLAN = "plan_contradicts"
LOCKS = "locks_contradict"


def check_orders(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check orders.

    1. The contract matches the request.
    2. The plan only splits the contract.
    3. Locks cover its paths.
    4. Batches are dispatched one after another.
    """
    for moment in replayed.moments:
        match moment.payload:
            case e.ContractCompiled(contract=contract):
                yield from _check_contract(moment, contract)  # 1
            case e.PlanAccepted():
                yield from _check_plan(moment, moment.payload)  # 2
            case e.LocksTaken(paths=paths):
                yield from _check_locks(moment, paths)  # 3
            case e.TaskDispatched(role="worker", task_id=task_id):
                yield from _batch(moment, task_id)  # 4
            case _:
                pass


def _check_contract(moment: Moment, contract: TaskContract) -> Iterator[Contradiction]:
    run = moment.before
    for broken in broken_by_consultation(contract.consultation):
        yield moment.contradiction(broken.code, layout.CONTRACT, layout.EVENTS, broken.detail)
    if run.request is None:
        yield moment.contradiction(
            CONTRACT, layout.CONTRACT, layout.EVENTS, "it was compiled, and no request was there to compile"
        )
        return
    for name in differences(contract, run.request, run.accepted.baseline_commit, run.run_id):
        yield moment.contradiction(CONTRACT, layout.CONTRACT, layout.REQUEST, f"its {name} is not the request's")
    for name in unlike_compiled(contract, run.run_id):
        yield moment.contradiction(
            CONTRACT, layout.CONTRACT, layout.EVENTS, f"its {name} is not what the pm gives every contract"
        )


def _check_plan(moment: Moment, event: e.PlanAccepted) -> Iterator[Contradiction]:
    contract, plan = moment.before.contract, event.plan
    if contract is None:
        return
    path = layout.task_plan(plan.task_id)
    for broken in broken_by_consultation(plan.consultation):
        yield moment.contradiction(broken.code, path, layout.EVENTS, broken.detail)
    if plan.producer.role != "TECH_LEAD":
        yield moment.contradiction(PLAN, path, layout.EVENTS, f"a {plan.producer.role} made the plan, and only a tech lead may")
    if moment.when is not None and moment_of(moment.before.created_at) is not None:
        for broken in broken_by_times(moment.before, moment.when, plan.created_at):
            yield moment.contradiction(broken.code, path, layout.EVENTS, broken.detail)
    for broken in (*broken_by_split(plan), *broken_by_candidates(plan, contract), *broken_by_count(plan, contract)):
        yield moment.contradiction(PLAN, path, layout.CONTRACT, broken.detail)
    allowed = scope.AllowedPaths(contract.allowed_paths)
    for shard in plan.contracts:
        if shard.owner_agent != plan.producer:
            words = f"{shard.task_id} is ordered by {shard.owner_agent.agent_id}, and {plan.producer.agent_id} made the plan"
            yield moment.contradiction(PLAN, path, layout.CONTRACT, words)
        for broken in broken_by_shard(shard, contract, allowed, moment.before.run_id):
            yield moment.contradiction(PLAN, path, layout.CONTRACT, f"{shard.task_id}: {broken.detail}")


def _check_locks(moment: Moment, paths: tuple[str, ...]) -> Iterator[Contradiction]:
    ordered = moment.before.contract.allowed_paths if moment.before.contract is not None else ()
    if paths != ordered:
        words = f"{', '.join(paths)} were locked, and the contract may change {', '.join(ordered)}"
        yield moment.contradiction(LOCKS, layout.EVENTS, layout.CONTRACT, words)


def _batch(moment: Moment, task_id: str) -> Iterator[Contradiction]:
    run = moment.before
    if moment.candidate:
        return  # a plan with one part has one batch
    for batch in run.plan.batches if run.plan is not None else ():
        ids = [attempt_id(each, run.attempt) for each in batch]
        if task_id in ids:
            return
        if late := [each for each in ids if not _is_done(run, each)]:
            path, against = layout.task_contract(task_id), layout.task_plan(run.plan.task_id if run.plan else "")
            yield moment.contradiction(PLAN, path, against, f"it was given out before {late[0]} of an earlier batch was done")
            return


def _is_done(run: Run, task_id: str) -> bool:
    task = run.tasks.get(task_id)
    return task is not None and task.status == "SUCCESS"
