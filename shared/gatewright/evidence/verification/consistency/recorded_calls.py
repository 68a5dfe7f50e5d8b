"""19. The model calls that roles recorded went where an approved manifest names, and with no more than it covers."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.artifacts import inline_bytes
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.evidence.verification.consistency.transfers import TRANSFER
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading
from gatewright.models.recorded_transfers import broken_by_calls, records_in
from gatewright.rules.transfers import FILE, leave_for
from gatewright.run import events as e


def check_recorded_calls(telling: Telling, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Of each answer that counted, of each to a question beside the run, and of interrupted work that left records.

    Only where a policy asked about transfers.
    """
    if FILE not in telling.run.accepted.policies:
        return
    for moment in telling.moments:
        for role, task_id, artifacts, usage in _answers_at(telling, moment):
            kept = records_in(artifacts)
            path = _place(reading, kept) if kept is not None else layout.EVENTS
            if not path:
                continue
            records = _records(reading, kept, path, step) if kept is not None else None
            for words in broken_by_calls(role, leave_for(moment.whole, role), records, usage):
                yield moment.says(TRANSFER, path, layout.EVENTS, f"{task_id}: {words}")


Answered = tuple[str, str, tuple[Artifact, ...], Usage | None]


def _answers_at(telling: Telling, moment: Moment) -> Iterator[Answered]:
    match moment.payload:
        case e.TaskFinished(accepted=True, result=result):
            yield "worker", result.task_id, result.artifacts, result.usage
        case e.TaskInterrupted(task_id=task_id, artifacts=artifacts, usage=usage) if records_in(artifacts) is not None:
            yield moment.record.role or "", task_id, artifacts, usage
        case e.ContractCompiled(contract=contract):
            yield from _consulted_answer("pm", f"{telling.run.run_id}.pm", contract.consultation)
        case e.PlanAccepted(plan=plan):
            yield from _consulted_answer("techlead", plan.task_id, plan.consultation)
        case e.GateJudged(report=report) if (report.gate, report.verdict) == ("reviewer", "PASS"):
            review = telling.history.reviews.get(report.task_id or "")
            yield from _consulted_answer("reviewer", report.task_id or "", review.consultation if review is not None else None)
        case e.SummonsAnswered(answer=answer):
            yield from _consulted_answer(answer.role, answer.task_id, answer.consultation)


def _consulted_answer(role: str, task_id: str, consultation: Consultation | None) -> Iterator[Answered]:
    if consultation is not None:
        yield role, task_id, consultation.artifacts, None


def _place(reading: Reading, kept: Artifact) -> str:
    """The file that holds these very bytes; empty where a secret was taken out of them, so that they are others now."""
    digest = layout.digest_of(kept.uri)
    same = (path for path, facts in reading.facts.items() if facts.sha256 == digest and facts.size <= MAX_DOCUMENT_BYTES)
    return layout.EVENTS if digest is None else next(same, "")


def _records(reading: Reading, kept: Artifact, path: str, step: int) -> bytes:
    """Raises MalformedError for a ``data:`` URI that is broken."""
    inline = inline_bytes(kept.uri)
    return inline if inline is not None else reading.document(path, step) or b""
