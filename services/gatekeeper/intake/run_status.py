"""How a run stands, as a document for who published it: a read model of the ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gatewright.contracts import OrchestratorEvent, RunStatus
from gatewright.contracts.run_status import LandedChange, SealedBundle, TaskStanding
from gatewright.run import events as e
from gatewright.run.families import ToldFamilies, failure_family, told_after
from gatewright.run.state import Run
from gatewright.work_documents.request_summary import gate_standing


def status_of(run: Run, records: Iterable[OrchestratorEvent]) -> RunStatus:
    """The status of ``run``, whose events are ``records``."""
    since, gates = run.created_at, []
    told: ToldFamilies = {}
    ending: e.RunFinished | None = None
    for record in records:
        payload = e.event_of(record)
        told = told_after(told, payload)
        match payload:
            case e.StateEntered():
                since = record.ts
            case e.GateJudged(report=report):
                gates.append(gate_standing(report))
            case e.RunFinished() as finished:
                ending = finished
    landed, sealed = run.landed, run.sealed
    if run.expired is not None and ending is None:
        since, over = run.finished_at, run.expired
        ending = e.RunFinished(status="SUCCESS" if over.state == "S6" else over.state, code=over.code, message=over.message)
    return RunStatus(
        run_id=run.run_id,
        publisher=run.publisher,
        requested_by=run.accepted.requested_by,
        status=run.status,
        state=run.state,
        since=since,
        created_at=run.created_at,
        attempt=run.attempt,
        tasks=tuple(
            TaskStanding(task_id=t.task_id, role=t.role, status=t.status, attempt=t.attempt) for t in run.tasks.values()
        ),
        gates=tuple(gates),
        waiting_for_locks=run.waiting_for_locks,
        finished_at=run.finished_at or None,
        code=ending.code if ending else None,
        message=ending.message if ending else None,
        family=failure_family(ending.code, told) if ending and ending.status != "SUCCESS" else None,
        landed=LandedChange(mode=landed.mode, ref=landed.ref, commit=landed.commit, tree=landed.tree) if landed else None,
        bundle=SealedBundle(manifest_sha256=sealed.manifest_sha256, signer=sealed.signer, location=sealed.location)
        if sealed
        else None,
    )
