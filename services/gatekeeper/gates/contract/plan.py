"""The plan gate: shards are disjoint, inside the contract, and change no fixed field of it (specification 7, S1)."""

from __future__ import annotations

from gatewright import scope
from gatewright.contracts import Plan, TaskContract
from gatewright.rules.shards import broken_by_candidates, broken_by_count, broken_by_shard, broken_by_split
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.contract.dispatch import FORBIDDEN, may_dispatch

RULES = (
    *("dispatch.table", "dispatch.owner", "task_id", "contract"),
    *("least_privilege", "allowed_paths", "disjoint", "batches", "candidates", "sharding"),
)


def judge_plan(context: GateContext, contract: TaskContract, plan: Plan) -> None:
    """Judge a plan.

    0. A tech lead planned it, for its workers.
    1. Ids belong to the run.
    2. Only paths and ids differ from the contract.
    3. Shards are inside the contract.
    4. Shards are disjoint.
    5. Batches are complete and in order.
    6. One shard per candidate; no more shards than allowed.
    """
    report = context.report
    for rule in RULES:
        report.checked(rule)
    _planner(context, plan)  # 0
    allowed = scope.AllowedPaths(contract.allowed_paths)
    for shard in plan.contracts:
        _judge_dispatch(context, shard, plan)  # 0
        for broken in broken_by_shard(shard, contract, allowed, report.run_id):  # 1, 2, 3
            report.violate(*broken)
    for broken in (*broken_by_split(plan), *broken_by_candidates(plan, contract), *broken_by_count(plan, contract)):  # 4, 5, 6
        report.violate(*broken)


def _planner(context: GateContext, plan: Plan) -> None:
    planner = plan.producer
    if planner.role != "TECH_LEAD" or context.policies.agent(planner.role, planner.agent_id) is None:
        context.report.violate(FORBIDDEN, "dispatch.owner", f"{planner.role} {planner.agent_id!r} is no registered tech lead")


def _judge_dispatch(context: GateContext, shard: TaskContract, plan: Plan) -> None:
    """Check that the planning tech lead itself orders the work, from a registered worker that is another agent."""
    report, policies = context.report, context.policies
    owner, assigned = shard.owner_agent, shard.assigned_agent
    if (owner.role, owner.agent_id) != (plan.producer.role, plan.producer.agent_id):
        report.violate(FORBIDDEN, "dispatch.owner", f"{shard.task_id} is ordered by {owner.role} {owner.agent_id!r}")
    may_dispatch(context, owner, assigned.role)
    if assigned.role != "WORKER" or policies.agent(assigned.role, assigned.agent_id) is None:
        words = f"{shard.task_id} is not given to a registered worker but to {assigned.role} {assigned.agent_id!r}"
        report.violate(FORBIDDEN, "dispatch.table", words)
