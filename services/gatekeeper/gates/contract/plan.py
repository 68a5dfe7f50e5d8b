"""The plan gate: shards are disjoint, inside the contract, and change nothing that the contract fixed (specification 7, S1)."""

from __future__ import annotations

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.rules.shards import broken_by_shard, broken_by_split
from gatewright.services.gatekeeper.gates.contract.dispatch import FORBIDDEN, may_dispatch
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.load import Policies

RULES = (
    *("dispatch.table", "dispatch.owner", "task_id", "contract"),
    *("least_privilege", "allowed_paths", "disjoint", "batches"),
)


def judge_plan(plan: Plan, contract: TaskContract, policies: Policies, found: GateReportBuilder) -> None:
    """0. planned by a tech lead, for its workers  1. ids are the run's own  2. nothing but paths and ids differs
    3. inside the contract  4. disjoint  5. batches."""
    for rule in RULES:
        found.checked(rule)
    _planner(plan, policies, found)  # 0
    allowed = scope.AllowedPaths(contract.allowed_paths)
    for shard in plan.contracts:
        _dispatched(shard, plan, policies, found)  # 0
        for broken in broken_by_shard(shard, contract, allowed, found.run_id):  # 1, 2, 3
            found.violate(*broken)
    for broken in broken_by_split(plan):  # 4, 5
        found.violate(*broken)


def _planner(plan: Plan, policies: Policies, found: GateReportBuilder) -> None:
    planner = plan.producer
    if planner.role != "TECH_LEAD" or policies.agent(planner.role, planner.agent_id) is None:
        found.violate(FORBIDDEN, "dispatch.owner", f"{planner.role} {planner.agent_id!r} is no registered tech lead")


def _dispatched(shard: TaskContract, plan: Plan, policies: Policies, found: GateReportBuilder) -> None:
    """The tech lead who planned gives the work out itself, to a registered worker that is somebody else."""
    owner, assigned = shard.owner_agent, shard.assigned_agent
    if (owner.role, owner.agent_id) != (plan.producer.role, plan.producer.agent_id):
        found.violate(FORBIDDEN, "dispatch.owner", f"{shard.task_id} is ordered by {owner.role} {owner.agent_id!r}")
    may_dispatch(owner, assigned.role, policies, found)
    if assigned.role != "WORKER" or policies.agent(assigned.role, assigned.agent_id) is None:
        words = f"{shard.task_id} is not given to a registered worker but to {assigned.role} {assigned.agent_id!r}"
        found.violate(FORBIDDEN, "dispatch.table", words)
