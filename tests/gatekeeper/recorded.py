"""A run that is open, for gates that are asked about one."""

from __future__ import annotations

from gatewright.contracts import TaskContract
from gatewright.run.events import RECORDING, RunAccepted
from gatewright.run.state import Run

#: When its runs were accepted.
ACCEPTED = "2026-01-02T00:00:00.000Z"


def make_open_run(run_id: str, contract: TaskContract, baseline: str, tree: str) -> Run:
    """A run in S2 on ``baseline`` (a commit) with its ``tree``."""
    repository = contract.repository
    assert repository is not None
    accepted = RunAccepted(
        user_request=contract.inputs.spec,
        requested_by="tests",
        repository_url=repository.url,
        submitted_sha256="0" * 64,
        policy_sha256="0" * 64,
        versions={},
        publisher="default",
        document_sha256="0" * 64,
        idempotency_key="key",
        orderers=(),
        recording=RECORDING,
        baseline_commit=baseline,
        baseline_tree=tree,
        contract=contract,
    )
    return Run(
        run_id=run_id, trace_id="0" * 32, accepted=accepted, state="S2", contract=contract, created_at=ACCEPTED, at=ACCEPTED
    )
