"""Contracts compiled from a request: they may order nothing beyond the request.

Two things may be left open in a request. The pm adds missing acceptance tests and records which question to a model they
answer. The environment is then the operator's profile for the language, which the policy gate checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import fields, replace

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.task_contract import Inputs, LogPaths, LogRefs, Rollback, RuntimeOptions
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, ToolPermissions
from gatewright.profiles.choice import environment_of
from gatewright.rules.task_contracts import READ_ONLY, REVIEWER, SEARCHER, TECH_LEAD, TEST_RUNNER, TESTING
from gatewright.worker_role import REQUIRED_OUTPUTS, TOOL_SET, WORKER, resolve_role, tool_set, worker_permissions

#: Agent and permissions of an order that changes nothing, by task type.
_AGENTS: Mapping[str, tuple[Agent, ToolPermissions]] = {
    "PLAN": (TECH_LEAD, READ_ONLY),
    "REVIEW": (REVIEWER, READ_ONLY),
    "TEST": (TEST_RUNNER, TESTING),
    "SEARCH": (SEARCHER, READ_ONLY),
}


def with_role(contract: TaskContract) -> TaskContract:
    """Return the contract with the agent of its task type, and the permissions, outputs and resolved role that follow."""
    agent, permissions = _AGENTS.get(contract.task_type, (WORKER, worker_permissions(interactive=contract.interactive)))
    works = agent is WORKER
    if works:
        permissions = replace(permissions, network=contract.tool_permissions.network)
        permissions = replace(permissions, mcp_tools=tuple(each for each in contract.mcp_tool_set if each not in TOOL_SET))
    contract = replace(
        contract,
        assigned_agent=agent,
        tool_permissions=permissions,
        required_outputs=REQUIRED_OUTPUTS if works else (),
        role_contract=None,
    )
    return replace(contract, role_contract=resolve_role(contract)) if works else contract


#: Values of fields that are the same in every compiled contract, from the contract and the run id.
_UNIFORM: Mapping[str, Callable[[TaskContract, str], object]] = {
    "task_id": lambda _contract, run_id: contract_task_id(run_id),
    "parent_task_id": lambda _contract, _run_id: None,
    "attempt": lambda _contract, _run_id: 1,
    "assigned_agent": lambda contract, _run_id: with_role(contract).assigned_agent,
    "required_outputs": lambda contract, _run_id: with_role(contract).required_outputs,
    "tool_permissions": lambda contract, _run_id: with_role(contract).tool_permissions,
    "role_contract": lambda contract, _run_id: with_role(contract).role_contract,
    "evidence_links": lambda _contract, _run_id: (),
}
#: Fields that ``differences`` skips, each with the rule that decides them instead.
NOT_COMPARED: Mapping[str, str] = {
    **dict.fromkeys(_UNIFORM, "unlike_compiled"),
    "consultation": "the rules of consultations",
    "environment_profile": "environments.json",
    "forbidden_actions": "they only narrow what commands may be",
}
_FIELDS = {field.name: field for field in fields(TaskContract)}
#: Fields that a request and a contract share under one name.
_SHARED = frozenset(_FIELDS) & {field.name for field in fields(RunRequest)}


def differences(contract: TaskContract, request: RunRequest, baseline: str, run_id: str) -> Iterator[str]:
    """Yield the fields of ``contract`` that differ from the request.

    Every field is compared except those of ``NOT_COMPARED``. A field without a counterpart in requests must have its default.

    Args:
        contract: the compiled contract.
        request: the request.
        baseline: the commit that the request is pinned to.
        run_id: the run.
    """
    expected = {
        "acceptance_tests": request.acceptance_tests or _proposed_tests(contract),
        "environment": environment_of(request, contract.environment_profile),
        "inputs": Inputs(spec=request.request, artifacts=request.artifacts),
        "mcp_tool_set": tool_set(request),
        "log_refs": LogRefs(run_id=run_id, paths=LogPaths()),
        "owner_agent": replace(contract.owner_agent, role="PM"),
        "rollback": Rollback(strategy="worktree_drop", baseline_ref=baseline),
        "runtime_options": RuntimeOptions(strict_acceptance=True) if request.strict_acceptance else None,
        "timeout_retry": request.timeout_retry or contract.timeout_retry,
    }
    for name, field in _FIELDS.items():
        if name in NOT_COMPARED:
            continue
        wanted = expected[name] if name in expected else getattr(request, name) if name in _SHARED else field.default
        if getattr(contract, name) != wanted:
            yield name
    if contract.assigned_agent == WORKER and contract.tool_permissions.network != request.network:
        yield "tool_permissions"


def unlike_compiled(contract: TaskContract, run_id: str) -> Iterator[str]:
    """Yield the fields with a fixed value in every compiled contract of run ``run_id`` that differ in this one."""
    for name, make in _UNIFORM.items():
        if getattr(contract, name) != make(contract, run_id):
            yield name


def default_of(order: RunRequest | TaskContract, name: str) -> object:
    """Return the default of an order's field; no value at all for a required one."""
    return next(field.default for field in fields(order) if field.name == name)


def contract_task_id(run_id: str) -> str:
    """Return the id of the contract that the pm compiles in run ``run_id``."""
    return f"{run_id}.contract"


def _proposed_tests(contract: TaskContract) -> tuple[AcceptanceTest, ...]:
    """Return the tests of a contract that a model proposed; the request allows no other additions."""
    return contract.acceptance_tests if contract.consultation is not None else ()
