"""Whether there is a pool of processes that can do what the contract needs: asked at intake, before anything is begun."""

from __future__ import annotations

from gatewright.contracts import RunRequest, TaskContract
from gatewright.errors import DeniedError
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.pools import POOLED_ROLES, RunNeeds


def judge_pools(context: GateContext, order: RunRequest | TaskContract) -> None:
    """One rule for each role that has pools, with the one that is taken; whether it has a process now is not asked."""
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
