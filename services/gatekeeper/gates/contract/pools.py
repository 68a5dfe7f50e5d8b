"""Pool selection: at intake, before any work, a pool must exist whose processes can do what the contract needs."""

from __future__ import annotations

from gatewright.contracts import RunRequest, TaskContract
from gatewright.errors import DeniedError
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.pools import POOLED_ROLES, RunNeeds


def judge_pools(context: GateContext, order: RunRequest | TaskContract) -> None:
    """Record the pool of each role that has pools. Whether the pool has a running process is not checked."""
    report, policies = context.report, context.policies
    needs = RunNeeds.of(order, policies.environments)
    for role in POOLED_ROLES:
        rule = f"pools.{role}"
        try:
            pool = policies.pools.choose(role, needs)
        except DeniedError as error:
            report.violate(error.reason, rule, error.message)
        else:
            report.checked(rule, f"{pool}, for {needs.of_role(role).words}")
