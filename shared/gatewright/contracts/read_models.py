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
RunPlace = Literal["S0", "S1", "S2", "S3", "S4", "S5", "S6", "AWAITING_APPROVAL", "FAILED", "ABORTED"]


class RoleContractSummary(Document):
    """One contract's role. ``resolved_from``: the contract's own ``role_contract``, or its other fields where it has none."""

    authority: Derived
    execution_authority: ExecutionAuthority
    access: Access
    task_id: NonEmpty
    contract_sha256: Sha256
    resolved_from: Literal["role_contract", "contract"]
    identity: RoleIdentity
    purpose: str | None
    system_prompt_ref: str | None
    skills_bundle_ref: str | None
    mcp_bundle_ref: str | None
    runtime_binding: RuntimeBinding
    tool_permissions: RolePermissions
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    handoff: Handoff
    fail_closed_conditions: tuple[NonEmpty, ...]


class RoleBinding(Document):
    """Who one task of a run was given to. ``executor`` is the kind of what makes the change, None for other roles."""

    task_id: NonEmpty
    attempt: Attempt
    pool: NonEmpty
    identity: RoleIdentity
    executor: str | None
    skills_bundle_ref: str | None
    mcp_bundle_ref: str | None
    runtime_binding: RuntimeBinding
    tool_permissions: RolePermissions
    resolved_mcp_tool_set: tuple[NonEmpty, ...]
    contract_sha256: Sha256


class RoleBindingSummary(Document):
    """The tasks of a run that have a contract, in the order in which they were made.

    ``contract_sha256`` is the digest of the bundle's ``contract.json``; None as long as there is no contract.
    """

    authority: Derived
    execution_authority: ExecutionAuthority
    access: Access
    run_id: RunId
    contract_sha256: Sha256 | None
    bindings: tuple[RoleBinding, ...]


class RoleBindingReadModel(Document):
    """A run with its bindings, as it stood after the event ``seq``."""

    authority: Derived
    execution_authority: ExecutionAuthority
    access: Access
    run_id: RunId
    seq: Positive
    status: RunOutcome
    state: RunPlace
    attempt: Attempt
    role_binding_summary: RoleBindingSummary


class CaseRun(Document):
    """One run of a case. ``code``: why it did not land; ``commit``: what landed."""

    run_id: RunId
    status: RunOutcome
    state: RunPlace
    created_at: Timestamp
    code: str | None = None
    commit: str | None = None


class WorkflowCaseReadModel(Document):
    """Runs that belong together, oldest first: of one publisher, on one repository, for the same requirements.

    Where it stands, and ``role_binding_summary``, are those of ``source_run_id``, the newest of them.
    """

    authority: Derived
    execution_authority: ExecutionAuthority
    access: Access
    case_id: NonEmpty
    publisher: NonEmpty
    repository: str
    requirement_ids: tuple[RequirementId, ...]
    status: RunOutcome
    state: RunPlace
    source_run_id: RunId
    runs: Annotated[tuple[CaseRun, ...], Meta(min_length=1)]
    role_binding_summary: RoleBindingSummary
