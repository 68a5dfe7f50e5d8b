"""The policy gate on contracts that have an agent or a model make the change."""

from __future__ import annotations

import pytest

from gatewright.contracts.vocabulary import Budget, Executor, Repository
from gatewright.services.gatekeeper.decider.gate_checks import IntakeCheck, IntakeVerdict
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository

RUN = "run-0123456789"


@pytest.mark.parametrize(
    ("executor", "code"),
    [
        (Executor(kind="agent"), ""),
        (Executor(kind="agent", agent="codex", model="gpt-5.5"), ""),
        (Executor(kind="model", model="gpt-5.5"), ""),
        (Executor(kind="agent", agent="no-such-agent"), "agent_unknown"),
        (Executor(kind="agent", agent="codex", model="no-such-model"), "model_unknown"),
        (Executor(kind="agent", agent="codex", model="gpt-5.1"), "model_not_allowed"),
        (Executor(kind="model", agent="codex"), "executor_contradicts"),
        (Executor(kind="model", model="gpt-5.5", fallback=True), ""),
        (Executor(kind="agent", agent="codex", fallback=True), "executor_contradicts"),
        (Executor(kind="command", commands=("ruff format {paths}",), fallback=True), "executor_contradicts"),
        (Executor(kind="command", commands=("ruff format {paths}",), agent="codex"), "executor_contradicts"),
        (Executor(kind="command", commands=("ruff format {paths}",), model="gpt-5.5"), "executor_contradicts"),
    ],
)
@pytest.mark.parametrize("kind", ["request", "contract"])
async def test_agents_and_models_are_those_of_the_policies(
    gates: GateEngine, make_repository: MakeRepository, kind: str, executor: Executor, code: str
) -> None:
    make = make_request if kind == "request" else make_contract
    repository = Repository(url=make_repository().url, landing="none")
    verdict = await gates.answer(IntakeCheck(RUN, make(repository=repository, executor=executor)))
    assert isinstance(verdict, IntakeVerdict)
    found = {violation.code for violation in verdict.report.violations}
    others = {"agent_unknown", "model_unknown", "model_not_allowed", "executor_contradicts"}
    assert (code in found) if code else not (found & others), verdict.report


async def test_a_budget_in_money_wants_a_model_whose_price_is_known(gates: GateEngine, make_repository: MakeRepository) -> None:
    request = make_request(
        repository=Repository(url=make_repository().url), executor=Executor(kind="agent"), budget=Budget(cost_usd=1.0)
    )
    verdict = await gates.answer(IntakeCheck(RUN, request))
    assert isinstance(verdict, IntakeVerdict)
    assert verdict.report.code == "model_price_unknown"
