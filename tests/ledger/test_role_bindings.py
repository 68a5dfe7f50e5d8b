"""The read models of a run's roles: made from contracts, read-only, and no second authority."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from gatewright.contracts import (
    RoleBindingReadModel,
    RoleBindingSummary,
    RoleContractSummary,
    WorkflowCaseReadModel,
    codec,
)
from gatewright.contracts.vocabulary import Document
from gatewright.ledger.role_bindings import role_binding_read_model, role_binding_summary, role_contract_summary, workflow_case
from gatewright.run.state import Run
from gatewright.worker_role import resolve_role
from tests.evidence.recorded_runs import MAKERS, make_fixed, make_success


def with_requirements(run: Run, *requirements: str, run_id: str | None = None, created_at: str | None = None) -> Run:
    assert run.contract is not None
    contract = replace(run.contract, requirement_ids=requirements)
    return replace(run, contract=contract, run_id=run_id or run.run_id, created_at=created_at or run.created_at)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_run_has_role_models_without_authority(name: str) -> None:
    run = MAKERS[name]().run
    models: list[Document] = [role_binding_summary(run), role_binding_read_model(run), workflow_case(run, ())]
    models += [role_contract_summary(run.contract)] if run.contract is not None else []
    for model in models:
        assert isinstance(model, RoleBindingSummary | RoleBindingReadModel | WorkflowCaseReadModel | RoleContractSummary)
        assert codec.decode(codec.encode(model), type(model)) == model
        assert (model.execution_authority, model.access) == ("task_contract", "read-only")


def test_the_bindings_match_the_tasks_and_name_their_contracts() -> None:
    run = make_fixed().run
    assert run.contract is not None
    summary = role_binding_summary(run)
    assert summary.contract_sha256 == hashlib.sha256(codec.encode(run.contract)).hexdigest()
    tasks = [task for task in run.tasks.values() if task.contract is not None]
    assert [each.task_id for each in summary.bindings] == [task.task_id for task in tasks]
    for each, task in zip(summary.bindings, tasks, strict=True):
        assert task.contract is not None
        assert each.identity.agent_id == task.contract.assigned_agent.agent_id
        assert each.tool_permissions.shell == task.contract.tool_permissions.shell
        assert each.contract_sha256 == hashlib.sha256(codec.encode(task.contract)).hexdigest()
    assert {each.executor for each in summary.bindings if each.identity.role != "WORKER"} == {None}


def test_the_role_summary_ignores_claims_beyond_the_contract() -> None:
    contract = make_success().run.contract
    assert contract is not None
    honest = resolve_role(contract)
    wide = replace(honest.tool_permissions, network="allow")
    identity = replace(honest.identity, agent_id="somebody-else")
    stated = replace(honest, tool_permissions=wide, identity=identity, resolved_mcp_tool_set=("everything",))
    summary = role_contract_summary(replace(contract, role_contract=stated))
    assert summary.resolved_from == "role_contract"
    assert summary.tool_permissions == honest.tool_permissions
    assert summary.identity == honest.identity
    assert summary.resolved_mcp_tool_set == contract.mcp_tool_set


def test_the_role_summary_invents_nothing_missing_from_the_contract() -> None:
    contract = make_success().run.contract
    assert contract is not None
    summary = role_contract_summary(replace(contract, role_contract=None))
    assert summary.resolved_from == "contract"
    assert (summary.purpose, summary.system_prompt_ref, summary.fail_closed_conditions) == (None, None, ())


def test_a_case_groups_runs_by_publisher_repository_and_requirement() -> None:
    run = with_requirements(make_success().run, "SHOP-CART-014", "SHOP-CART-015")
    early = with_requirements(run, "SHOP-CART-015", run_id="run-" + "0" * 20, created_at="2020-01-01T00:00:00.000Z")
    late = with_requirements(run, "SHOP-CART-014", run_id="run-" + "1" * 20, created_at="2030-01-01T00:00:00.000Z")
    others = [
        with_requirements(run, "SHOP-CART-016", run_id="run-" + "2" * 20),
        with_requirements(run, run_id="run-" + "3" * 20),
        replace(early, run_id="run-" + "4" * 20, accepted=replace(run.accepted, publisher="another")),
        replace(early, run_id="run-" + "5" * 20, accepted=replace(run.accepted, repository_identity="file:/elsewhere")),
    ]
    case = workflow_case(run, [late, *others, early, run])
    assert [each.run_id for each in case.runs] == [early.run_id, run.run_id, late.run_id]
    assert (case.case_id, case.source_run_id) == ("SHOP-CART-014", late.run_id)
    assert case.role_binding_summary == role_binding_summary(late)


def test_a_run_without_requirements_is_a_case_of_its_own() -> None:
    run = make_success().run
    case = workflow_case(run, [replace(run, run_id="run-" + "9" * 20)])
    assert (case.case_id, [each.run_id for each in case.runs]) == (run.run_id, [run.run_id])
