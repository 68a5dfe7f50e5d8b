"""19. Recorded model calls went to targets of an approved manifest, with no more data than it covers."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.artifacts import inline_bytes
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.evidence.verification.consistency.transfers import TRANSFER
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading
from gatewright.models.recorded_transfers import broken_by_calls, records_in
from gatewright.rules.transfers import FILE, leave_for
from gatewright.run import events as e


def check_recorded_calls(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check accepted answers, answers to questions beside the run, and interrupted work with records.

    Only where a policy requires approval of transfers.
    """
    if FILE not in replayed.run.accepted.policies:
        return
    for moment in replayed.moments:
        for role, task_id, artifacts, usage in _answers_at(replayed, moment):
            kept = records_in(artifacts)
            path = _place(reading, kept) if kept is not None else layout.EVENTS
            if not path:
                continue
            records = _records(reading, kept, path, step) if kept is not None else None
            for words in broken_by_calls(role, leave_for(moment.whole, role), records, usage):
                yield moment.contradiction(TRANSFER, path, layout.EVENTS, f"{task_id}: {words}")


Answered = tuple[str, str, tuple[Artifact, ...], Usage | None]


def _answers_at(replayed: ReplayedRun, moment: Moment) -> Iterator[Answered]:
    match moment.payload:
        case e.TaskFinished(accepted=True, result=result):
            yield "worker", result.task_id, result.artifacts, result.usage
        case e.TaskInterrupted(task_id=task_id, artifacts=artifacts, usage=usage) if records_in(artifacts) is not None:
            yield moment.record.role or "", task_id, artifacts, usage
        case e.ContractCompiled(contract=contract):
            yield from _consulted_answer("pm", f"{replayed.run.run_id}.pm", contract.consultation)
        case e.PlanAccepted(plan=plan):
            yield from _consulted_answer("techlead", plan.task_id, plan.consultation)
        case e.GateJudged(report=report) if (report.gate, report.verdict) == ("reviewer", "PASS"):
            review = replayed.history.reviews.get(report.task_id or "")
            yield from _consulted_answer("reviewer", report.task_id or "", review.consultation if review is not None else None)
        case e.SummonsAnswered(answer=answer):
            yield from _consulted_answer(answer.role, answer.task_id, answer.consultation)


def _consulted_answer(role: str, task_id: str, consultation: Consultation | None) -> Iterator[Answered]:
    if consultation is not None:
        yield role, task_id, consultation.artifacts, None


def _place(reading: Reading, kept: Artifact) -> str:
    """Return the file with exactly these bytes; empty where a redaction has changed them."""
    digest = layout.digest_of(kept.uri)
    same = (path for path, facts in reading.facts.items() if facts.sha256 == digest and facts.size <= MAX_DOCUMENT_BYTES)
    return layout.EVENTS if digest is None else next(same, "")


def _records(reading: Reading, kept: Artifact, path: str, step: int) -> bytes:
    """Return the bytes of a record. Raises MalformedError for an invalid ``data:`` URI."""
    inline = inline_bytes(kept.uri)
    return inline if inline is not None else reading.document(path, step) or b""
