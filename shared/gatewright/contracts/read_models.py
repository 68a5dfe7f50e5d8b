"""How the roles of a run are bound, for looking at: CortexPilot's read models of a contract (specification 6.1.4).

They are derived from task contracts, which stay the only authority. Nothing is ordered, permitted or moved by them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.run_status import RunOutcome
from gatewright.contracts.task_contract import Handoff, RoleIdentity, RolePermissions, RuntimeBinding
from gatewright.contracts.vocabulary import Attempt, Document, NonEmpty, Positive, RequirementId, RunId, Sha256, Timestamp

Derived = Literal["contract-derived-read-model"]
ExecutionAuthority = Literal["task_contract"]
Access = Literal["read-only"]
RunPlace = Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "QUEUED", "FAILED", "ABORTED"]


class RoleContractSummary(Document):
    """The role that one contract resolves to, for display (specification 6.1.4). It orders and permits nothing."""

    authority: Derived
    """What this document is: derived from contracts."""
    execution_authority: ExecutionAuthority
    """The document that orders and permits instead."""
    access: Access
    """How it may be used."""
    task_id: NonEmpty
    """The contract's task."""
    contract_sha256: Sha256
    """Digest of the contract's canonical JSON."""
    resolved_from: Literal["role_contract", "contract"]
    """The contract's own role_contract, or its other fields where it has none."""
    identity: RoleIdentity
    """The role and agent that the contract is assigned to."""
    purpose: str | None
    """Purpose of the role; null if the contract does not state it."""
    system_prompt_ref: str | None
    """The role's prompt."""
    skills_bundle_ref: str | None
    """The role's skills."""
    mcp_bundle_ref: str | None
    """The role's MCP servers."""
    runtime_binding: RuntimeBinding
    """What runs the role, as far as the contract states it."""
    tool_permissions: RolePermissions
    """Same as the contract's tool_permissions."""
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    """Same as the contract's mcp_tool_set."""
    handoff: Handoff
    """Roles that the role may pass the task to."""
    fail_closed_conditions: tuple[NonEmpty, ...]
    """Conditions, in words, under which the role must stop."""


class RoleBinding(Document):
    """The role and agent that one task of a run was given to."""

    task_id: NonEmpty
    """The task."""
    attempt: Attempt
    pool: NonEmpty
    """The pool whose processes do the task."""
    identity: RoleIdentity
    """The role and agent that the contract is assigned to."""
    executor: str | None
    """Kind of the executor; null for roles that make no change."""
    skills_bundle_ref: str | None
    """The role's skills."""
    mcp_bundle_ref: str | None
    """The role's MCP servers."""
    runtime_binding: RuntimeBinding
    """What runs the role, as far as the contract states it."""
    tool_permissions: RolePermissions
    """Same as the contract's tool_permissions."""
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    """Same as the contract's mcp_tool_set."""
    contract_sha256: Sha256
    """Digest of the task's contract."""


class RoleBindingSummary(Document):
    """The roles and agents that the tasks of a run were given to, by their contracts (specification 6.1.4).

    It orders and permits nothing.
    """

    authority: Derived
    """What this document is: derived from contracts."""
    execution_authority: ExecutionAuthority
    """The document that orders and permits instead."""
    access: Access
    """How it may be used."""
    run_id: RunId
    contract_sha256: Sha256 | None
    """Digest of the bundle's contract.json; null as long as there is no contract."""
    bindings: tuple[RoleBinding, ...]
    """The tasks that have a contract, in the order in which they were made."""


class RoleBindingReadModel(Document):
    """A run with the bindings of its roles, after one of its events (specification 6.1.4). It orders and permits nothing."""

    authority: Derived
    """What this document is: derived from contracts."""
    execution_authority: ExecutionAuthority
    """The document that orders and permits instead."""
    access: Access
    """How it may be used."""
    run_id: RunId
    seq: Positive
    """Number of the event after which the run had this state."""
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    state: RunPlace
    """State in the life cycle of a run."""
    attempt: Attempt
    role_binding_summary: RoleBindingSummary
    """The roles and agents that its tasks were given to."""


class CaseRun(Document):
    """One run of a case."""

    run_id: RunId
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    state: RunPlace
    """State in the life cycle of a run."""
    created_at: Timestamp
    """When the run was accepted."""
    code: str | None = None
    """Why it did not land."""
    commit: str | None = None
    """The commit that landed."""


class WorkflowCaseReadModel(Document):
    """Runs that belong together, with the bindings of the newest (specification 6.1.4). It orders and permits nothing.

    The runs are of one publisher, on one repository, for the same requirements.
    """

    authority: Derived
    """What this document is: derived from contracts."""
    execution_authority: ExecutionAuthority
    """The document that orders and permits instead."""
    access: Access
    """How it may be used."""
    case_id: NonEmpty
    """The first of the requirements, or the run where there is none."""
    publisher: NonEmpty
    """The publisher of the runs."""
    repository: str
    """The repository that they change."""
    requirement_ids: tuple[RequirementId, ...]
    """The requirements that the runs share; none for a run that stands alone."""
    status: RunOutcome
    """Whether it is still running, or how it ended."""
    state: RunPlace
    """State in the life cycle of a run."""
    source_run_id: RunId
    """The newest run. status, state and role_binding_summary are those of this run."""
    runs: Annotated[tuple[CaseRun, ...], Meta(min_length=1)]
    """The runs, the oldest first."""
    role_binding_summary: RoleBindingSummary
    """The roles and agents that the tasks of the newest run were given to."""
