"""Status of a run as a document for its publisher: a read model of the ledger. Pure."""

from __future__ import annotations

from gatewright.contracts import RunStatus
from gatewright.contracts.run_status import LandedChange, SealedBundle, TaskStanding
from gatewright.run.history import FollowedRun
from gatewright.work_documents.request_summary import gate_standing


def status_of(past: FollowedRun) -> RunStatus:
    """Return the status of a run."""
    run, ending = past.run, past.finished
    landed, sealed = run.landed, run.sealed
    return RunStatus(
        run_id=run.run_id,
        publisher=run.publisher,
        requested_by=run.accepted.requested_by,
        status=run.status,
        state=run.state,
        since=past.state_since,
        created_at=run.created_at,
        attempt=run.attempt,
        task_type=run.accepted.task_type,
        tasks=tuple(
            TaskStanding(task_id=t.task_id, role=t.role, status=t.status, attempt=t.attempt) for t in run.tasks.values()
        ),
        gates=tuple(map(gate_standing, past.gates)),
        waiting_for_locks=run.waiting_for_locks,
        finished_at=run.finished_at or None,
        code=ending.code if ending else None,
        message=ending.message if ending else None,
        family=past.failure_family,
        landed=LandedChange(mode=landed.mode, ref=landed.ref, commit=landed.commit, tree=landed.tree) if landed else None,
        bundle=SealedBundle(manifest_sha256=sealed.manifest_sha256, signer=sealed.signer, location=sealed.location)
        if sealed
        else None,
    )
