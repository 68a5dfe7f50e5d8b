"""The resolved role of a contract and the schema of its answer: both repeat facts fixed elsewhere and must agree with them.

Specification 6.1.3 and 6.1.4.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.contracts import TaskContract
from gatewright.contracts.task_contract import HandoffChain, RoleContract, RuntimeOptions
from gatewright.contracts.vocabulary import Artifact, RoleName
from gatewright.resources import schema_directory
from gatewright.rules.gate_evidence import OUTPUT_SCHEMA
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.policies.roles import OUTPUT_SCHEMAS, TASKS


def judge_role_contract(context: GateContext, contract: TaskContract) -> None:
    """Check that the resolved role agrees with the fields that it resolves; report every field that differs."""
    role = contract.role_contract
    if role is None:
        return
    for field, resolved, authoritative in _pairs(contract, role):
        rule = f"role_contract.{field}"
        context.report.checked(rule)
        if resolved != authoritative:
            context.report.violate("role_contract_drift", rule, f"is {resolved!r}, but the contract has {authoritative!r}")


def _pairs(contract: TaskContract, role: RoleContract) -> Iterator[tuple[str, object, object]]:
    asked, agent = contract.tool_permissions, contract.assigned_agent
    options, chain = contract.runtime_options or RuntimeOptions(), contract.handoff_chain or HandoffChain()
    yield "identity.role", role.identity.role, agent.role
    yield "identity.agent_id", role.identity.agent_id, agent.agent_id
    yield "tool_permissions.filesystem", role.tool_permissions.filesystem, asked.filesystem
    yield "tool_permissions.shell", role.tool_permissions.shell, asked.shell
    yield "tool_permissions.network", role.tool_permissions.network, asked.network
    yield "resolved_mcp_tool_set", role.resolved_mcp_tool_set, contract.mcp_tool_set
    yield "runtime_binding.runner", role.runtime_binding.runner, options.runner
    yield "runtime_binding.provider", role.runtime_binding.provider, options.provider
    yield "handoff.eligible", role.handoff.eligible, chain.enabled
    yield "handoff.chain_roles", role.handoff.chain_roles, chain.roles
    # Zero or unset on either side cannot disagree.
    yield "handoff.max_handoffs", role.handoff.max_handoffs or chain.max_handoffs or 0, chain.max_handoffs or 0


def judge_output_schema(context: GateContext, contract: TaskContract) -> None:
    """Record the schema of the answer, which the role fixes, with its digest."""
    report = context.report
    role, kind = contract.assigned_agent.role, contract.task_type
    if TASKS.get(role) != kind:
        report.violate("output_schema_mismatch", OUTPUT_SCHEMA, f"there is no answer of a {role} to a task of type {kind}")
        return
    report.checked(OUTPUT_SCHEMA, f"a {role} answers {kind} with {OUTPUT_SCHEMAS[kind]}")
    report.saw(f"{OUTPUT_SCHEMA}.{role.lower()}", schema_digest(OUTPUT_SCHEMAS[kind]))


def bound_schema(context: GateContext, artifact: Artifact, assigned: RoleName) -> bytes | None:
    """Return the schema that an ``output_schema`` or ``output_schema.<role>`` artifact binds, if it is the role's own schema.

    Its ``uri`` is a path of the product, ``schemas/<name>.json``, and is never fetched.
    """
    report = context.report
    roles = {f"{OUTPUT_SCHEMA}.{role.lower()}": role for role in TASKS} | {OUTPUT_SCHEMA: assigned}
    role = roles.get(artifact.name)
    task = TASKS.get(role) if role is not None else None
    name = OUTPUT_SCHEMAS[task] if task is not None else None
    if name is None or artifact.uri != f"schemas/{name}.json":
        words = f"{artifact.name!r} binds {artifact.uri[:80]!r}, the role answers with {name or 'no schema'}"
        report.violate("output_schema_mismatch", OUTPUT_SCHEMA, words)
        return None
    if artifact.sha256.lower() != schema_digest(name):
        report.violate("output_schema_mismatch", OUTPUT_SCHEMA, f"{artifact.name!r}: another version of {name} is bound")
        return None
    return _schema_bytes(name)


def is_binding(artifact: Artifact) -> bool:
    """Return whether an input artifact binds an output schema instead of providing an input."""
    return artifact.name == OUTPUT_SCHEMA or artifact.name.startswith(f"{OUTPUT_SCHEMA}.")


def schema_digest(name: str) -> str:
    """Return the sha256 of the shipped schema file ``name``."""
    return hashlib.sha256(_schema_bytes(name)).hexdigest()


def _schema_bytes(name: str) -> bytes:
    return (schema_directory() / f"{name}.json").read_bytes()
