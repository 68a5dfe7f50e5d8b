"""What the policy gate says about the commands of a contract."""

from __future__ import annotations

from gatewright.contracts.task_contract import RuntimeOptions
from gatewright.contracts.vocabulary import AcceptanceTest, Executor
from gatewright.services.gatekeeper.gates.contract.policy import judge_contract
from gatewright.services.gatekeeper.policies.load import Policies
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context

RUN = "run-0123456789"


def refused(policies: Policies, *, test: str = "pytest", command: str = "touch src/x", strict: bool = False) -> list[str]:
    """The codes of the command gate for a contract with this acceptance test and this executor's command."""
    contract = make_contract(
        RUN,
        acceptance_tests=(AcceptanceTest(name="t", cmd=test, must_pass=True),),
        executor=Executor(kind="command", commands=(command,)),
        runtime_options=RuntimeOptions(strict_acceptance=True) if strict else None,
    )
    context = make_context(RUN, "policy", policies)
    judge_contract(context, contract)
    return [violation.code for violation in context.report.violations if violation.rule == "command_allowlist"]


def judged(policies: Policies, test: str) -> str:
    """Why the command gate refuses this acceptance test; empty when it does not."""
    context = make_context(RUN, "policy", policies)
    judge_contract(context, make_contract(RUN, acceptance_tests=(AcceptanceTest(name="t", cmd=test, must_pass=True),)))
    return "\n".join(violation.detail for violation in context.report.violations if violation.rule == "command_allowlist")
