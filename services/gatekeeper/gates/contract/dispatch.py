"""Dispatch rules on contracts: which role may order work from which, and no agent judges its own work.

The table is policies/roles.json within the bounds of ``policies/roles.py``. A worker never dispatches. A run's order passes
from the PM to the tech lead, and only the tech lead's shards reach the workers.
"""

from __future__ import annotations

from itertools import pairwise

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import HandoffChain
from gatewright.contracts.vocabulary import Agent, RoleName
from gatewright.run.kinds import KINDS
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.policies.roles import IMPLEMENTING, TASKS

FORBIDDEN = "dispatch_forbidden"


def judge_dispatch(context: GateContext, contract: TaskContract) -> None:
    """Judge who orders work from whom.

    1. The ordering agent is registered.
    2. Its role may order from the assigned role.
    3. The assigned agent is another agent.
    4. The handoff chain goes in one direction, and names each role that has to judge the task.
    """
    report = context.report
    owner, assigned = contract.owner_agent, contract.assigned_agent
    report.checked("dispatch.owner", f"{owner.role} {owner.agent_id!r}")
    if context.policies.agent(owner.role, owner.agent_id) is None:  # 1
        report.violate(FORBIDDEN, "dispatch.owner", f"{owner.role} {owner.agent_id!r} is not registered, so orders nothing")
    may_dispatch(context, owner, assigned.role)  # 2
    report.checked("dispatch.two_agents")
    if owner.agent_id == assigned.agent_id or (  # 3
        owner.codex_thread_id is not None and owner.codex_thread_id == assigned.codex_thread_id
    ):
        report.violate(FORBIDDEN, "dispatch.two_agents", f"{assigned.agent_id!r} would order from itself")
    if contract.handoff_chain is not None:  # 4
        _judge_chain(contract.handoff_chain, contract, report)


def judge_order(context: GateContext, contract: TaskContract) -> None:
    """Require that an order is for a role that does such work."""
    report, role = context.report, contract.assigned_agent.role
    report.checked("dispatch.task_type", contract.task_type)
    if TASKS.get(role) != contract.task_type:
        report.violate(FORBIDDEN, "dispatch.task_type", f"no run begins with {contract.task_type} for a {role}")


def may_dispatch(context: GateContext, owner: Agent, role: RoleName) -> None:
    """Check the dispatch table."""
    report = context.report
    allowed = context.policies.roles.of(owner.role).may_dispatch_to
    report.checked("dispatch.table", f"{owner.role} -> {role}")
    if role not in allowed:
        whom = "no role" if not allowed else "no " + role
        report.violate(FORBIDDEN, "dispatch.table", f"{owner.role} -> {role}: a {owner.role} gives work to {whom}")


#: Order of roles in a handoff chain (specification 7). Roles of one rank may follow each other.
_RANKS: dict[RoleName, int] = {
    "PM": 0,
    "TECH_LEAD": 1,
    "SEARCHER": 2,
    "RESEARCHER": 2,
    **dict.fromkeys(IMPLEMENTING, 3),
    "REVIEWER": 4,
    "TEST_RUNNER": 5,
    "TEST": 5,
}


def _judge_chain(chain: HandoffChain, contract: TaskContract, report: GateReportBuilder) -> None:
    """Check a handoff chain: no step back (such as reviewer to worker), no agent twice, not too long, and about this task."""
    roles, assigned, kind = chain.roles, contract.assigned_agent.role, KINDS[contract.task_type]
    report.checked("handoff_chain", " -> ".join(roles))
    if len(set(roles)) != len(roles):
        report.violate(FORBIDDEN, "handoff_chain", "a role comes twice, so it would judge or order what it did itself")
    for giver, taker in pairwise(roles):
        if _RANKS[taker] < _RANKS[giver]:
            report.violate(FORBIDDEN, "handoff_chain", f"{giver} -> {taker}: work does not go back")
    if chain.max_handoffs is not None and len(roles) - 1 > chain.max_handoffs:
        report.violate(FORBIDDEN, "handoff_chain", f"{len(roles) - 1} handoffs, {chain.max_handoffs} allowed")
    if chain.enabled and roles and assigned not in roles:
        report.violate(FORBIDDEN, "handoff_chain", f"the {assigned} who has the task is not in it")
    judges = {name for name, asked in (("REVIEWER", kind.reviews), ("TEST_RUNNER", kind.tests)) if asked}
    for role in sorted(judges.difference(roles)) if chain.takers else ():
        report.violate(FORBIDDEN, "handoff_chain", f"a role outside of it gets no task, and a {kind.name} needs the {role}")
    for role in sorted(set(chain.takers) - judges - {"PM", "TECH_LEAD", assigned}):
        report.violate(FORBIDDEN, "handoff_chain", f"a {kind.name} with the {assigned} gives no task to the {role}")
