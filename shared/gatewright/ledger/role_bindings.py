"""Read models of a run's roles (``gatewright.contracts.read_models``), derived from its contracts. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final, TypedDict

from msgspec.structs import replace

from gatewright.contracts import (
    RoleBindingReadModel,
    RoleBindingSummary,
    RoleContractSummary,
    TaskContract,
    WorkflowCaseReadModel,
    codec,
)
from gatewright.contracts.read_models import Access, CaseRun, Derived, ExecutionAuthority, RoleBinding
from gatewright.contracts.task_contract import RoleContract, RuntimeBinding
from gatewright.run.state import Run, RunTask
from gatewright.worker_role import resolve_role


class _Head(TypedDict):
    authority: Derived
    execution_authority: ExecutionAuthority
    access: Access


#: Common fields of all read models.
_HEAD: Final[_Head] = {
    "authority": "contract-derived-read-model",
    "execution_authority": "task_contract",
    "access": "read-only",
}


def role_contract_summary(contract: TaskContract) -> RoleContractSummary:
    """Return the role of one contract, from the contract's own fields even where ``role_contract`` differs.

    The policy gate refuses a contract whose ``role_contract`` differs; a preview must not show mere claims.
    """
    stated, resolved = contract.role_contract, resolve_role(contract)
    return RoleContractSummary(
        **_HEAD,
        task_id=contract.task_id,
        contract_sha256=_digest_contract(contract),
        resolved_from="role_contract" if stated is not None else "contract",
        identity=resolved.identity,
        purpose=stated.purpose if stated is not None else None,
        system_prompt_ref=stated.system_prompt_ref if stated is not None else None,
        skills_bundle_ref=stated.skills_bundle_ref if stated is not None else None,
        mcp_bundle_ref=stated.mcp_bundle_ref if stated is not None else None,
        runtime_binding=_runtime(resolved, stated),
        tool_permissions=resolved.tool_permissions,
        resolved_mcp_tool_set=resolved.resolved_mcp_tool_set,
        handoff=resolved.handoff,
        fail_closed_conditions=stated.fail_closed_conditions if stated is not None else (),
    )


def role_binding_summary(run: Run) -> RoleBindingSummary:
    """Return the agents that received the tasks of a run."""
    return RoleBindingSummary(
        **_HEAD,
        run_id=run.run_id,
        contract_sha256=_digest_contract(run.contract) if run.contract is not None else None,
        bindings=tuple(_binding(task, task.contract) for task in run.tasks.values() if task.contract is not None),
    )


def role_binding_read_model(run: Run) -> RoleBindingReadModel:
    """Return a run with its current bindings."""
    return RoleBindingReadModel(
        **_HEAD,
        run_id=run.run_id,
        seq=run.seq,
        status=run.status,
        state=run.state,
        attempt=run.attempt,
        role_binding_summary=role_binding_summary(run),
    )


def requirements_of(run: Run) -> tuple[str, ...]:
    """Return the distinct requirements of a run: of its contract, or of its request before there is a contract."""
    order = run.contract or run.accepted.contract or run.request
    return tuple(dict.fromkeys(order.requirement_ids)) if order is not None else ()


def workflow_case(run: Run, others: Iterable[Run]) -> WorkflowCaseReadModel:
    """Return the case of a run: ``others`` of its publisher, on its repository, that share one of its requirements.

    A run without requirements is a case of its own.
    """
    requirements = requirements_of(run)
    linked = {other.run_id: other for other in others if _shares_requirement(run, other, frozenset(requirements))} | {
        run.run_id: run
    }
    runs = sorted(linked.values(), key=lambda each: (each.created_at, each.run_id))
    newest = runs[-1]
    return WorkflowCaseReadModel(
        **_HEAD,
        case_id=requirements[0] if requirements else run.run_id,
        publisher=run.publisher,
        repository=run.accepted.repository_url,
        requirement_ids=requirements,
        status=newest.status,
        state=newest.state,
        source_run_id=newest.run_id,
        runs=tuple(map(_case_run, runs)),
        role_binding_summary=role_binding_summary(newest),
    )


def _shares_requirement(run: Run, other: Run, requirements: frozenset[str]) -> bool:
    return (
        other.publisher == run.publisher
        and _repository_name(other) == _repository_name(run)
        and not requirements.isdisjoint(requirements_of(other))
    )


def _repository_name(run: Run) -> str:
    return run.accepted.repository_identity or run.accepted.repository_url


def _case_run(run: Run) -> CaseRun:
    return CaseRun(
        run_id=run.run_id,
        status=run.status,
        state=run.state,
        created_at=run.created_at,
        code=run.failure.code if run.failure is not None else None,
        commit=(run.landed.commit or None) if run.landed is not None else None,
    )


def _binding(task: RunTask, contract: TaskContract) -> RoleBinding:
    stated, resolved = contract.role_contract, resolve_role(contract)
    executor = contract.executor if task.role == "worker" else None
    return RoleBinding(
        task_id=task.task_id,
        attempt=task.attempt,
        pool=task.pool,
        identity=resolved.identity,
        executor=executor.kind if executor is not None else None,
        skills_bundle_ref=stated.skills_bundle_ref if stated is not None else None,
        mcp_bundle_ref=stated.mcp_bundle_ref if stated is not None else None,
        runtime_binding=_runtime(resolved, stated),
        tool_permissions=resolved.tool_permissions,
        resolved_mcp_tool_set=resolved.resolved_mcp_tool_set,
        contract_sha256=_digest_contract(contract),
    )


def _runtime(resolved: RoleContract, stated: RoleContract | None) -> RuntimeBinding:
    """Return the runtime: runner and provider from the contract itself; only ``role_contract`` has the model."""
    model = stated.runtime_binding.model if stated is not None else None
    return replace(resolved.runtime_binding, model=model)


def _digest_contract(contract: TaskContract) -> str:
    return hashlib.sha256(codec.encode(contract)).hexdigest()
