"""Repairs that a run ordered, and their results (TheHood, runtime loop).

A packet answers a finding and extends nothing. Evidence from before a repair proves nothing about the result, so each item has
only the later verdicts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec.structs import replace

from gatewright.contracts import GateReport, OrchestratorEvent, ReviewReport, RevisionPacket, RevisionTrail, TestReport
from gatewright.contracts.people.revision_orders import VoidVote
from gatewright.contracts.work_documents import CheckerVerdict, GradedIssue, RepairResponse, RevisionItem
from gatewright.rules.rounds import DIFF_OBJECTIVE, PEOPLE_OBJECTIVE, REVIEW_OBJECTIVE, TESTS_OBJECTIVE
from gatewright.run import events as e
from gatewright.run.state import Run

Source = Literal["diff", "reviewer", "tests", "people"]
#: By the gate that refused: whose finding a repair answers, and what for.
_SOURCES: dict[str, tuple[Source, str]] = {
    "diff": ("diff", DIFF_OBJECTIVE),
    "reviewer": ("reviewer", REVIEW_OBJECTIVE),
    "tests": ("tests", TESTS_OBJECTIVE),
    "approval": ("people", PEOPLE_OBJECTIVE),
}


@dataclass
class _Round:
    packet: RevisionPacket
    responses: list[RepairResponse] = field(default_factory=list)
    review: ReviewReport | None = None
    tests: TestReport | None = None


def trail_of(run: Run, records: Sequence[OrchestratorEvent]) -> RevisionTrail:
    """The repairs of a run, open or ended, in order. Raises MalformedError for an event whose payload does not fit."""
    rounds: list[_Round] = []
    refusals: dict[str, GateReport] = {}
    latest_review: ReviewReport | None = None
    for record in records:
        payload = e.event_of(record)
        match payload:
            case e.GateJudged(report=report) if report.verdict == "FAIL":
                refusals[report.code] = report
            case e.FixOrdered():
                packet = _packet(run, record, payload, refusals.get(payload.reason))
                rounds.append(_Round(replace(packet, checker=_checker(latest_review) if packet.source == "reviewer" else None)))
                latest_review = None
            case e.TaskFinished(result=result, accepted=accepted) if rounds:
                response = RepairResponse(task_id=result.task_id, agent=result.producer.agent_id, accepted=accepted)
                rounds[-1].responses.append(response)
            case e.ReviewReceived(report=review):
                latest_review = review
                if rounds:
                    rounds[-1].review = review
            case e.TestsReceived(report=tests) if rounds:
                rounds[-1].tests = tests
            case _:
                pass
    items = (_item(each, run, is_last=each is rounds[-1]) for each in rounds)
    return RevisionTrail(run_id=run.run_id, items=tuple(items))


def _packet(run: Run, record: OrchestratorEvent, order: e.FixOrdered, refusal: GateReport | None) -> RevisionPacket:
    gate = refusal.gate if refusal is not None else "tests"
    source, objective = _SOURCES.get(gate, _SOURCES["tests"])
    paths = dict.fromkeys(path for contract in order.contracts for path in contract.allowed_paths)
    shown = dict.fromkeys(uri for contract in order.contracts for uri in contract.evidence_links)
    return RevisionPacket(
        run_id=run.run_id,
        attempt=order.attempt,
        ordered_at=record.ts,
        reason=order.reason,
        source=source,
        objective=objective,
        findings=refusal.violations if refusal else (),
        tasks=tuple(contract.task_id for contract in order.contracts),
        allowed_paths=tuple(paths),
        evidence_refs=tuple(shown),
        event=record.seq,
        void_votes=tuple(_void(run, order.attempt - 1)),
    )


def _checker(report: ReviewReport | None) -> CheckerVerdict | None:
    """A reviewer's report as the verdict of a checker: what blocks is graded major, a remark minor."""
    if report is None:
        return None
    issues = (
        GradedIssue(
            grade="major" if each.blocking else "minor", code=each.code, message=each.message, path=each.path, line=each.line
        )
        for each in report.findings
    )
    return CheckerVerdict(
        decision="PASS" if report.verdict == "PASS" else "FAIL", issues=tuple(issues), feedback=report.summary
    )


def _void(run: Run, attempt: int) -> Iterator[VoidVote]:
    """What people had voted on the round that was refused, by whichever gate: it is void for what comes next."""
    for name, asked in run.approvals.items():
        for cast in asked.votes if asked.request.attempt == attempt else ():
            yield VoidVote(
                request_id=name,
                person=cast.person.name,
                colour=cast.vote.colour,
                at=cast.at,
                rationale=cast.vote.rationale,
                evidence=cast.vote.evidence,
            )


def _item(made: _Round, run: Run, *, is_last: bool) -> RevisionItem:
    review, tests = (run.review, run.tests) if run.chosen and is_last else (made.review, made.tests)
    return RevisionItem(
        packet=made.packet,
        state=_state(made, run, is_last=is_last),
        responses=tuple(made.responses),
        review=review.verdict if review else None,
        tests=tests.status if tests else None,
    )


def _state(made: _Round, run: Run, *, is_last: bool) -> Literal["active", "cured", "not_cured", "abandoned"]:
    if not is_last:
        return "not_cured"
    if not run.ended:
        return "active"
    if run.status == "SUCCESS":
        return "cured"
    return "not_cured" if made.review or made.tests else "abandoned"
