"""The plan gate: shards are disjoint, inside the contract, and change nothing that the contract fixed (specification 7, S1)."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.errors import ScopeError
from gatewright.worker_role import PERMISSIONS as WORKER_PERMISSIONS
from services.gatekeeper.decider import orders
from services.gatekeeper.gates.judgement import Judgement

SHARD = re.compile(r"w[0-9]{2,3}")


def judge_plan(plan: Plan, contract: TaskContract, found: Judgement) -> None:
    """1. ids are the run's own  2. nothing but paths and ids differs  3. inside the contract  4. disjoint  5. batches."""
    prefix = orders.plan_task_id(found.run_id) + "."
    ids = [shard.task_id for shard in plan.contracts]
    for shard in plan.contracts:
        name = shard.task_id.removeprefix(prefix)
        if name == shard.task_id or not SHARD.fullmatch(name):  # 1
            found.violate("plan_invalid", "task_id", f"{shard.task_id!r} is not a shard of this plan")
        _unchanged(shard, contract, found)  # 2
        _inside(shard, contract, found)  # 3
    if len(set(ids)) != len(ids):
        found.violate("plan_invalid", "task_id", "two shards have the same id")
    if not scope.disjoint([shard.allowed_paths for shard in plan.contracts]):  # 4
        found.violate("plan_invalid", "disjoint", "two shards may write the same path")
    if sorted(task_id for batch in plan.batches for task_id in batch) != sorted(ids):  # 5
        found.violate("plan_invalid", "batches", "the batches do not hold every shard exactly once")


def _unchanged(shard: TaskContract, contract: TaskContract, found: Judgement) -> None:
    """Everything but the shard's own fields must be the contract's; permissions may only be the worker's."""
    aligned = replace(
        shard,
        task_id=contract.task_id,
        task_type=contract.task_type,
        parent_task_id=contract.parent_task_id,
        owner_agent=contract.owner_agent,
        assigned_agent=contract.assigned_agent,
        allowed_paths=contract.allowed_paths,
        tool_permissions=contract.tool_permissions,
        role_contract=contract.role_contract,
        required_outputs=contract.required_outputs,
        sharding=contract.sharding,
    )
    if aligned != contract or shard.task_type != "IMPLEMENT" or shard.parent_task_id != contract.task_id:
        found.violate("plan_invalid", "contract", f"{shard.task_id} changes more than its paths")
    if shard.assigned_agent.role != "WORKER":
        found.violate("plan_invalid", "dispatch", f"{shard.task_id} is not given to a worker")
    if shard.tool_permissions != orders.no_shell_unless(contract, WORKER_PERMISSIONS):
        found.violate("permission_too_wide", "least_privilege", f"{shard.task_id} asks for more than a worker gets")


def _inside(shard: TaskContract, contract: TaskContract, found: Judgement) -> None:
    for path in shard.allowed_paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            found.violate("plan_invalid", "allowed_paths", error.message)
            continue
        if not scope.covers(contract.allowed_paths, clean.encode()):
            found.violate("plan_invalid", "allowed_paths", "outside the contract", clean.encode())
