"""The plan gate: shards are disjoint, inside the contract, and change nothing that the contract fixed (specification 7, S1)."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.errors import ScopeError
from gatewright.worker_role import least_permissions
from services.gatekeeper.decider import orders
from services.gatekeeper.gates.dispatch import FORBIDDEN, may_dispatch
from services.gatekeeper.gates.judgement import Judgement
from services.gatekeeper.policies import Policies

RULES = (
    *("dispatch.table", "dispatch.owner", "task_id", "contract"),
    *("least_privilege", "allowed_paths", "disjoint", "batches"),
)
SHARD = re.compile(r"w[0-9]{2,3}")  # noqa: TID251 - linear: of a fixed length


def judge_plan(plan: Plan, contract: TaskContract, policies: Policies, found: Judgement) -> None:
    """0. planned by a tech lead, for its workers  1. ids are the run's own  2. nothing but paths and ids differs
    3. inside the contract  4. disjoint  5. batches."""
    for rule in RULES:
        found.checked(rule)
    _planner(plan, policies, found)  # 0
    prefix = orders.plan_task_id(found.run_id) + "."
    ids = [shard.task_id for shard in plan.contracts]
    allowed = scope.AllowedPaths(contract.allowed_paths)
    for shard in plan.contracts:
        name = shard.task_id.removeprefix(prefix)
        if name == shard.task_id or not SHARD.fullmatch(name):  # 1
            found.violate("plan_invalid", "task_id", f"{shard.task_id!r} is not a shard of this plan")
        _dispatched(shard, plan, policies, found)  # 0
        _unchanged(shard, contract, found)  # 2
        _inside(shard, allowed, found)  # 3
    if len(set(ids)) != len(ids):
        found.violate("plan_invalid", "task_id", "two shards have the same id")
    if not scope.disjoint([shard.allowed_paths for shard in plan.contracts]):  # 4
        found.violate("plan_invalid", "disjoint", "two shards may write the same path")
    if sorted(task_id for batch in plan.batches for task_id in batch) != sorted(ids):  # 5
        found.violate("plan_invalid", "batches", "the batches do not hold every shard exactly once")


def _planner(plan: Plan, policies: Policies, found: Judgement) -> None:
    planner = plan.producer
    if planner.role != "TECH_LEAD" or policies.agent(planner.role, planner.agent_id) is None:
        found.violate(FORBIDDEN, "dispatch.owner", f"{planner.role} {planner.agent_id!r} is no registered tech lead")


def _dispatched(shard: TaskContract, plan: Plan, policies: Policies, found: Judgement) -> None:
    """The tech lead who planned gives the work out itself, to a registered worker that is somebody else."""
    owner, assigned = shard.owner_agent, shard.assigned_agent
    if (owner.role, owner.agent_id) != (plan.producer.role, plan.producer.agent_id):
        found.violate(FORBIDDEN, "dispatch.owner", f"{shard.task_id} is ordered by {owner.role} {owner.agent_id!r}")
    may_dispatch(owner, assigned.role, policies, found)
    if assigned.role != "WORKER" or policies.agent(assigned.role, assigned.agent_id) is None:
        words = f"{shard.task_id} is not given to a registered worker but to {assigned.role} {assigned.agent_id!r}"
        found.violate(FORBIDDEN, "dispatch.table", words)


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
        requested_permissions=contract.requested_permissions,
        role_contract=contract.role_contract,
        required_outputs=contract.required_outputs,
        sharding=contract.sharding,
    )
    if aligned != contract or shard.task_type != "IMPLEMENT" or shard.parent_task_id != contract.task_id:
        found.violate("plan_invalid", "contract", f"{shard.task_id} changes more than its paths")
    if shard.tool_permissions != least_permissions(contract.tool_permissions) or shard.requested_permissions is not None:
        found.violate("permission_too_wide", "least_privilege", f"{shard.task_id} asks for more than a worker gets")


def _inside(shard: TaskContract, allowed: scope.AllowedPaths, found: Judgement) -> None:
    for path in shard.allowed_paths:
        try:
            clean = scope.check_allowed_path(path)
        except ScopeError as error:
            found.violate("plan_invalid", "allowed_paths", error.message)
            continue
        if not allowed.cover(clean.encode()):
            found.violate("plan_invalid", "allowed_paths", "outside the contract", clean.encode())
