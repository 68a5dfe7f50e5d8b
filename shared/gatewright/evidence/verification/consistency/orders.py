"""3. Contract, plan and tasks order the same: nothing was added on the way from the order to the work."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.ledger import events as e
from gatewright.ledger.run import Run
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.contracts import differences
from gatewright.rules.rounds import curable
from gatewright.rules.shards import attempt_id, broken_by_candidates, broken_by_shard, broken_by_split
from gatewright.tasks.protocol import CANDIDATE

CONTRACT = "contract_contradicts"
PLAN = "plan_contradicts"
TASK = "task_contradicts"
LOCKS = "locks_contradict"
#: What the gatekeeper changes in a contract when it makes a role's task of it; all else must be the contract's.
_EVERY = frozenset(
    {"task_id", "parent_task_id", "task_type", "assigned_agent", "tool_permissions", "required_outputs", "budget"}
)
_JUDGE = _EVERY | {"owner_agent", "inputs", "executor", "role_contract", "requested_permissions", "attempt"}
_JUDGE |= {"candidates", "candidate"}
ADAPTED: dict[str, frozenset[str]] = {
    "techlead": _EVERY | {"requested_permissions", "role_contract"},
    "reviewer": _JUDGE,
    "testrunner": _JUDGE | {"mutation"},
}
#: What a round of fixing changes in the contract of a shard.
_FIXED = frozenset({"task_id", "parent_task_id", "attempt", "inputs", "evidence_links", "budget"})
_AGENTS = {"techlead": "TECH_LEAD", "reviewer": "REVIEWER", "testrunner": "TEST_RUNNER"}


def check_orders(telling: Telling) -> Iterator[Contradiction]:
    """1. the contract is the request's  2. the plan splits the contract and nothing else  3. locks cover it
    4. every task is the contract's, and judges look at the candidate  5. a round of fixing repeats the shards
    6. batches are given out one after another."""
    for moment in telling.moments:
        match moment.payload:
            case e.ContractCompiled(contract=contract):
                yield from _compiled(moment, contract)  # 1
            case e.PlanAccepted():
                yield from _planned(moment, moment.payload)  # 2
            case e.LocksTaken(paths=paths):
                yield from _locked(moment, paths)  # 3
            case e.TaskDispatched():
                yield from _dispatched(moment, moment.payload)  # 4, 6
            case e.FixOrdered():
                yield from _fixed(moment, moment.payload)  # 5
            case _:
                pass


def _compiled(moment: Moment, contract: TaskContract) -> Iterator[Contradiction]:
    run = moment.before
    if run.request is None:
        yield moment.says(CONTRACT, layout.CONTRACT, layout.EVENTS, "it was compiled, and no request was there to compile")
        return
    for name in differences(contract, run.request, run.accepted.baseline_commit, run.run_id):
        yield moment.says(CONTRACT, layout.CONTRACT, layout.REQUEST, f"its {name} is not the request's")


def _planned(moment: Moment, event: e.PlanAccepted) -> Iterator[Contradiction]:
    contract, plan = moment.before.contract, event.plan
    if contract is None:
        return
    path = layout.task_plan(plan.task_id)
    for broken in (*broken_by_split(plan), *broken_by_candidates(plan, contract)):
        yield moment.says(PLAN, path, layout.CONTRACT, broken.detail)
    allowed = scope.AllowedPaths(contract.allowed_paths)
    for shard in plan.contracts:
        for broken in broken_by_shard(shard, contract, allowed, moment.before.run_id):
            yield moment.says(PLAN, path, layout.CONTRACT, f"{shard.task_id}: {broken.detail}")


def _locked(moment: Moment, paths: tuple[str, ...]) -> Iterator[Contradiction]:
    contract, locked = moment.before.contract, scope.AllowedPaths(paths)
    for path in contract.allowed_paths if contract is not None else ():
        if not locked.cover(path.encode("utf-8", "surrogatepass")):
            yield moment.says(LOCKS, layout.EVENTS, layout.CONTRACT, f"{path} was not locked, and the contract may change it")


def _dispatched(moment: Moment, event: e.TaskDispatched) -> Iterator[Contradiction]:
    run, path = moment.before, layout.task_contract(event.task_id)
    if event.role == "worker":
        if event.contract is not None:
            yield moment.says(TASK, path, layout.EVENTS, "a worker's contract is the plan's, and this one was given another")
        yield from _batch(moment, event.task_id)
        return
    task = event.contract
    if task is None or run.contract is None or event.role not in ADAPTED:
        if event.role != "pm":
            yield moment.says(TASK, path, layout.CONTRACT, f"the {event.role} was given no contract")
        return
    told = run.contract if event.role == "testrunner" else visible(run.contract)
    for name in _unlike(task, told, ADAPTED[event.role]):
        yield moment.says(TASK, path, layout.CONTRACT, f"the {event.role}'s {name} is not the contract's")
    if task.task_id != event.task_id or task.assigned_agent.role != _AGENTS[event.role]:
        yield moment.says(TASK, path, layout.EVENTS, f"it is {task.assigned_agent.role}'s task {task.task_id}")
    if event.role in {"reviewer", "testrunner"}:
        yield from _judging(moment, event, task)


def _judging(moment: Moment, event: e.TaskDispatched, task: TaskContract) -> Iterator[Contradiction]:
    run, path = moment.before, layout.task_contract(event.task_id)
    if task.candidate is None and moment.whole.candidates:
        yield moment.says(TASK, path, layout.EVENTS, "it does not say which of the candidates it is about")
    if task.attempt != run.attempt:
        yield moment.says(TASK, path, layout.EVENTS, f"it is of attempt {task.attempt}, and {run.attempt} was under way")
    if event.role == "testrunner" and task.mutation != run.accepted.mutation:
        yield moment.says(TASK, path, layout.EVENTS, "the testrunner's mutation is not what was accepted with the run")
    shown = {artifact.uri for artifact in task.inputs.artifacts if artifact.name == CANDIDATE}
    if run.candidate is not None and shown != {run.candidate.patch}:
        yield moment.says(TASK, path, layout.PATCH, f"the {event.role} was given another patch than the candidate's")


def _unlike(task: TaskContract, contract: TaskContract, adapted: frozenset[str]) -> Iterator[str]:
    for name in TaskContract.__struct_fields__:
        if name not in adapted and getattr(task, name) != getattr(contract, name):
            yield name


def _batch(moment: Moment, task_id: str) -> Iterator[Contradiction]:
    run = moment.before
    if moment.candidate:
        return  # a plan of one part has one batch
    for batch in run.plan.batches if run.plan is not None else ():
        ids = [attempt_id(each, run.attempt) for each in batch]
        if task_id in ids:
            return
        if late := [each for each in ids if not _done(run, each)]:
            path, against = layout.task_contract(task_id), layout.task_plan(run.plan.task_id if run.plan else "")
            yield moment.says(PLAN, path, against, f"it was given out before {late[0]} of an earlier batch was done")
            return


def _done(run: Run, task_id: str) -> bool:
    task = run.tasks.get(task_id)
    return task is not None and task.status == "SUCCESS"


def _fixed(moment: Moment, event: e.FixOrdered) -> Iterator[Contradiction]:
    run = moment.before
    again = [task for task, _ in curable(run)] if run.candidates else run.workers()
    expected = {_next_id(task.task_id, run.attempt): task.contract for task in again}
    ordered = {contract.task_id: contract for contract in event.contracts}
    plan = layout.task_plan(run.plan.task_id) if run.plan is not None else layout.EVENTS
    if ordered.keys() != expected.keys():
        yield moment.says(PLAN, layout.EVENTS, plan, "the round of fixing is not of the plan's shards")
        return
    for task_id, contract in ordered.items():
        if (before := expected[task_id]) is not None:
            path, against = layout.task_contract(task_id), layout.task_contract(before.task_id)
            for name in _unlike(contract, before, _FIXED):
                yield moment.says(TASK, path, against, f"its {name} is not that of the attempt before")
        if contract.attempt != event.attempt:
            words = f"it is of attempt {contract.attempt}, and attempt {event.attempt} was ordered"
            yield moment.says(TASK, layout.task_contract(task_id), layout.EVENTS, words)


def _next_id(task_id: str, attempt: int) -> str:
    return attempt_id(task_id if attempt == 1 else task_id.removesuffix(f".a{attempt}"), attempt + 1)
