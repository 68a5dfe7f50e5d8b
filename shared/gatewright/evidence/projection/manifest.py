"""The run manifest: the run's participants, every file with its digest, and the last hash of the event chain.

A pure function of the run's events and the digests of its files, so that a verifier can recompute and compare it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gatewright.bus.topology import LEDGER, run_subject
from gatewright.contracts import RunManifest, Transition
from gatewright.contracts.records import FileRecord, Integrity, RepoRecord, TaskRecord
from gatewright.contracts.vocabulary import RoleName
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory, evidence_transitions
from gatewright.evidence.projection.summary_reports import failure_reason
from gatewright.run.candidates import made_by
from gatewright.run.state import Run, RunTask, TaskStatus

_ROLES: Mapping[str, RoleName] = {
    "pm": "PM",
    "techlead": "TECH_LEAD",
    "worker": "WORKER",
    "reviewer": "REVIEWER",
    "testrunner": "TEST_RUNNER",
}
#: Status of a task after the end of the run: never dispatched is skipped, never answered is blocked.
_STATUS: Mapping[TaskStatus, Literal["SUCCESS", "FAILED", "BLOCKED", "SKIPPED"]] = {
    "PENDING": "SKIPPED",
    "RUNNING": "BLOCKED",
    "SUCCESS": "SUCCESS",
    "FAILED": "FAILED",
}


def file_record(path: str, data: bytes) -> FileRecord:
    return FileRecord(path=path, size=len(data), sha256=hashlib.sha256(data).hexdigest())


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """Ledger messages of a bundle: their number, and the stream sequences of the first and the last."""

    transitions: int
    first: int | None
    last: int | None


def span_of(transitions: Sequence[Transition], sequences: Sequence[int]) -> LedgerSpan:
    """Return the span of a run: all messages except one that contains only the seal.

    Args:
        transitions: the transitions of the run.
        sequences: stream sequence of each transition.
    """
    steps = evidence_transitions(transitions)
    if len(sequences) != len(transitions) or not steps:
        return LedgerSpan(steps, None, None)
    return LedgerSpan(steps, sequences[0], sequences[steps - 1])


def make_manifest(history: RunHistory, files: Iterable[FileRecord], *, span: LedgerSpan, signer: str) -> RunManifest:
    """Return the manifest of a bundle.

    Args:
        history: the ended run.
        files: the files of the bundle, without manifest and signatures.
        span: the ledger messages of the run.
        signer: key id of the signing gatekeeper.
    """
    run = history.run
    listed = _file_records(history, files)
    digests = {file.path: file.sha256 for file in listed}
    last = history.records[-1]
    contract = run.contract
    return RunManifest(
        run_id=run.run_id,
        created_at=run.created_at,
        finished_at=run.finished_at,
        status="SUCCESS" if run.status == "SUCCESS" else "FAILURE",
        failure_reason=failure_reason(history),
        user_request=run.accepted.user_request,
        trace_id=run.trace_id,
        repo=_repository_record(run),
        versions=run.accepted.versions,
        tasks=tuple(_task(task, digests) for task in run.tasks.values()),
        artifacts=tuple(path for path in digests if path.startswith("artifacts/")),
        evidence_hashes={path: digests[path] for path in layout.HASHED if path in digests},
        policy_pack=contract.policy_pack if contract else None,
        runner=executor.kind if (executor := made_by(run)) is not None else None,
        integrity=Integrity(
            files=listed,
            chain_head=last.hash,
            chain_length=last.seq,
            ledger_stream=LEDGER,
            ledger_subject=run_subject(run.run_id),
            transitions=span.transitions,
            policy_sha256=run.accepted.policy_sha256,
            signer=signer,
            ledger_first=span.first,
            ledger_last=span.last,
        ),
        layout=layout.VERSION,
        publisher=run.accepted.publisher,
    )


def _file_records(history: RunHistory, files: Iterable[FileRecord]) -> tuple[FileRecord, ...]:
    """Return the files by path; each duplicate names its first path."""
    ranked = sorted((file for file in files if file.path not in layout.UNLISTED), key=lambda file: file.path)
    digests = {file.path: file.sha256 for file in ranked}
    reviewed = _last(history, history.reviews) if history.run.review else None
    tested = _last(history, history.tests) if history.run.tests else None
    firsts = layout.first_places(reviewed, tested)
    firsts |= {layout.result_patch(task_id): layout.task_patch(task_id) for task_id in history.results}
    return tuple(
        FileRecord(
            path=file.path, size=file.size, sha256=file.sha256, same_as=_unaltered_place(firsts.get(file.path), file, digests)
        )
        for file in ranked
    )


def _last(history: RunHistory, task_ids: Iterable[str]) -> str | None:
    """Return the last of these tasks that was about the landed candidate."""
    run = history.run
    about = (task_id for task_id in task_ids if run.tasks[task_id].candidate in {0, run.chosen})
    return next(reversed(tuple(about)), None)


def _unaltered_place(place: str | None, file: FileRecord, digests: Mapping[str, str]) -> str | None:
    return place if place is not None and digests.get(place) == file.sha256 else None


def _repository_record(run: Run) -> RepoRecord:
    landed = run.landed
    return RepoRecord(
        root=run.accepted.repository_url,
        remote_url=run.accepted.repository_url,
        baseline_ref=run.accepted.baseline_commit,
        branch=(landed.ref or None) if landed else None,
        final_ref=(landed.commit or None) if landed else None,
    )


def _task(task: RunTask, digests: Mapping[str, str]) -> TaskRecord:
    contract = layout.task_contract(task.task_id) if task.contract else layout.REQUEST
    compiled = task.role == "pm" and task.status == "SUCCESS"
    answers = (*_answers(task.task_id), *((layout.CONTRACT,) if compiled else ()))
    result = next((path for path in answers if path in digests), None)
    review, test = layout.review(task.task_id), layout.test(task.task_id)
    return TaskRecord(
        task_id=task.task_id,
        role=_ROLES[task.role],
        status=_STATUS[task.status],
        contract=contract if contract in digests else "",
        result=result,
        review_report=review if review in digests else None,
        test_report=test if test in digests else None,
    )


def _answers(task_id: str) -> tuple[str, ...]:
    return layout.task_result(task_id), layout.task_plan(task_id), layout.task_error(task_id)
