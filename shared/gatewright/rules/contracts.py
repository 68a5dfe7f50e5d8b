"""What a contract may say that was compiled from a request: nothing that the request did not say.

Two things may be left open: the acceptance tests, which the pm fills in and tells what it asked a model for that; and what
commands see, which then is the operator's profile for the language. Whether it is that, the gatekeeper's policy gate knows.
"""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.profiles.choice import environment_of
from gatewright.worker_role import REQUIRED_OUTPUTS, WORKER, resolve_role, worker_permissions


def differences(contract: TaskContract, request: RunRequest, baseline: str, run_id: str) -> Iterator[str]:
    """The fields of ``contract`` that are not what ``request``, pinned to the commit ``baseline``, orders in run ``run_id``."""
    options = contract.runtime_options
    pairs = {
        "allowed_paths": (contract.allowed_paths, request.allowed_paths),
        "acceptance_tests": (contract.acceptance_tests, request.acceptance_tests or _proposed_tests(contract)),
        "executor": (contract.executor, request.executor),
        "candidates": (contract.candidates, request.candidates),
        "candidate": (contract.candidate, None),
        "repository": (contract.repository, request.repository),
        "scope": (contract.scope, request.scope),
        "environment": (contract.environment, environment_of(request, contract.environment_profile)),
        "artifacts": (contract.inputs.artifacts, request.artifacts),
        "spec": (contract.inputs.spec, request.request),
        "policy_pack": (contract.policy_pack, request.policy_pack),
        "sharding": (contract.sharding, request.sharding),
        "budget": (contract.budget, request.budget),
        "requirement_ids": (contract.requirement_ids, request.requirement_ids),
        "audit_only": (contract.audit_only, request.audit_only),
        "interactive": (contract.interactive, request.interactive),
        "priority": (contract.priority, request.priority),
        "needs": (contract.needs, request.needs),
        "author": (contract.author, request.author),
        "source_branch": (contract.source_branch, request.source_branch),
        "ordered_by": (contract.ordered_by, request.ordered_by),
        "strict_acceptance": (options is not None and options.strict_acceptance, request.strict_acceptance),
        "timeout_retry": (contract.timeout_retry, request.timeout_retry or contract.timeout_retry),
        "requested_permissions": (contract.requested_permissions, None),
        "mutation": (contract.mutation, None),
        "transfer": (contract.transfer, None),
        "questions": (contract.questions, None),
        "baseline_ref": (contract.rollback.baseline_ref, baseline),
        "run_id": (contract.log_refs.run_id, run_id),
        "owner_agent.role": (contract.owner_agent.role, "PM"),
    }
    for name, (compiled, asked) in pairs.items():
        if compiled != asked:
            yield name


def unlike_compiled(contract: TaskContract, run_id: str) -> Iterator[str]:
    """The fields that every contract compiled in run ``run_id`` fills alike, and this one does not."""
    pairs = {
        "task_id": (contract.task_id, contract_task_id(run_id)),
        "task_type": (contract.task_type, "IMPLEMENT"),
        "parent_task_id": (contract.parent_task_id, None),
        "attempt": (contract.attempt, 1),
        "assigned_agent": (contract.assigned_agent, WORKER),
        "required_outputs": (contract.required_outputs, REQUIRED_OUTPUTS),
        "tool_permissions": (contract.tool_permissions, worker_permissions(interactive=contract.interactive)),
        "role_contract": (contract.role_contract, resolve_role(contract)),
    }
    for name, (compiled, expected) in pairs.items():
        if compiled != expected:
            yield name


def contract_task_id(run_id: str) -> str:
    """The id of the contract that the pm compiles in run ``run_id``."""
    return f"{run_id}.contract"


def _proposed_tests(contract: TaskContract) -> tuple[AcceptanceTest, ...]:
    """Those of a contract that a model was asked for; nothing else may stand where the request says nothing."""
    return contract.acceptance_tests if contract.consultation is not None else ()
