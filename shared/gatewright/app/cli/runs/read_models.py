"""The read models of a run's roles at the command line and for coding hosts: from the ledger, or from bundles without a bus."""

from __future__ import annotations

from typing import Literal, get_args

from gatewright.app.cli.runs.sources import RunSource
from gatewright.contracts import (
    RoleBindingReadModel,
    RoleBindingSummary,
    RoleContractSummary,
    WorkflowCaseReadModel,
)
from gatewright.errors import MalformedError
from gatewright.ledger.role_bindings import role_binding_read_model, role_binding_summary, role_contract_summary, workflow_case

ReadModelKind = Literal["role_contract_summary", "role_binding_summary", "role_binding_read_model", "workflow_case_read_model"]
READ_MODELS: tuple[ReadModelKind, ...] = get_args(ReadModelKind)
#: Newest runs among which those of a case are looked for.
_MOST_RUNS = 50


async def read_model(
    kind: ReadModelKind, source: RunSource, run_id: str
) -> RoleContractSummary | RoleBindingSummary | RoleBindingReadModel | WorkflowCaseReadModel:
    """One of them, of one run. Raises MalformedError (``run_unknown``; ``no_contract`` for the role of a run that has none)."""
    run = (await source.view(run_id)).run
    match kind:
        case "role_contract_summary":
            if run.contract is None:
                raise MalformedError(f"{run.run_id} has no contract, and so no role", code="no_contract")
            return role_contract_summary(run.contract)
        case "role_binding_summary":
            return role_binding_summary(run)
        case "role_binding_read_model":
            return role_binding_read_model(run)
        case "workflow_case_read_model":
            return workflow_case(run, (await source.page(_MOST_RUNS, None)).runs)
