"""Whether the agent and the model that a contract names are ones of the operator's policies, and may be used by the worker."""

from __future__ import annotations

from gatewright.contracts.vocabulary import Budget, Executor
from gatewright.errors import DeniedError, MalformedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.services.gatekeeper.gates.context import GateContext


def judge_asked(context: GateContext, executor: Executor, budget: Budget | None) -> None:
    """Violations: ``agent_unknown``, ``executor_contradicts``, and those of ``ModelsPolicy.grant``."""
    report, policies = context.report, context.policies
    if not EXECUTOR_KINDS[executor.kind].asked_anew or (executor.kind == "model" and executor.agent is not None):
        named = executor.agent or (executor.model if not EXECUTOR_KINDS[executor.kind].asked_anew else None)
        if named is not None:
            report.violate("executor_contradicts", "executor", f"a {executor.kind} executor has no use for {named}")
            return
    if executor.fallback and executor.model is None:
        report.violate("executor_contradicts", "executor", "fallback says what may answer for a named model, and none is named")
        return
    if not EXECUTOR_KINDS[executor.kind].asked_anew:
        return
    model = executor.model
    report.checked("agents", executor.agent or "by default")
    try:
        if executor.agent is not None:
            model = model or policies.agents.agent(executor.agent).model
        report.checked("models", model or "by default")
        policies.models.grant("worker", model=model, fallback=executor.falls_back, budget=budget)
    except (MalformedError, DeniedError) as error:
        report.violate(error.reason, "models" if error.reason.startswith("model") else "agents", error.message)
