"""2. Every event was legal when it happened, and time does not go back."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file, moment_of
from gatewright.run import events as e

TIME = "time_reversed"
TURN = "out_of_turn"
ATTEMPT = "attempt_contradicts"


def check_sequence(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check the sequence.

    1. Times of events, and of verdicts in them.
    2. Every event is legal after the ones before it.
    """
    last = replayed.history.records[0].ts
    for moment in replayed.moments[:1]:
        if not isinstance(moment.payload, e.GateJudged) or moment.payload.report.gate != "policy":
            yield moment.contradiction(
                TURN, layout.EVENTS, layout.EVENTS, "the order was accepted, and no policy gate judged it"
            )
    for moment in replayed.moments:
        yield from _times(moment, last)  # 1
        if why := moment.payload.may_follow(moment.before):
            if isinstance(moment.payload, e.GateJudged):
                yield moment.contradiction(ATTEMPT, _file(moment), layout.EVENTS, why)  # 2
            else:
                yield moment.contradiction(TURN, _file(moment), layout.EVENTS, why)  # 2
        last = moment.record.ts


def _times(moment: Moment, last: str) -> Iterator[Contradiction]:
    when, before = moment.when, moment_of(last)
    if when is None or before is None:
        yield moment.contradiction(TIME, layout.EVENTS, layout.EVENTS, f"{moment.record.ts[:40]!r} is no time with a zone")
    elif when < before:
        words = f"it happened {moment.record.ts}, and the event before it {last}"
        yield moment.contradiction(TIME, layout.EVENTS, layout.EVENTS, words)
    if isinstance(moment.payload, e.GateJudged) and when is not None:
        report = moment.payload.report
        evaluated = moment_of(report.evaluated_at)
        if evaluated is None or evaluated > when:
            words = f"the verdict was given {report.evaluated_at}, and recorded {moment.record.ts}"
            yield moment.contradiction(TIME, _file(moment), layout.EVENTS, words)


def _file(moment: Moment) -> str:
    """Return the file of the bundle that records an event."""
    match moment.payload:
        case e.GateJudged(report=report):
            return gate_file(moment.gates, report)
        case e.TaskDispatched(task_id=task_id):
            return layout.task_contract(task_id)
        case e.ContractCompiled():
            return layout.CONTRACT
        case e.PlanAccepted(plan=plan):
            return layout.task_plan(plan.task_id)
        case e.TaskFinished(result=result):
            return layout.task_result(result.task_id)
        case e.ReviewReceived():
            return layout.REVIEW_REPORT
        case e.TestsReceived():
            return layout.TEST_REPORT
        case e.CandidateComposed():
            return layout.GIT_CANDIDATE
        case e.Landed():
            return layout.GIT_LANDED
        case _:
            return layout.EVENTS
