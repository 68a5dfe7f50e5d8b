"""Runs with several candidates: eliminates candidates, starts stages, and chooses the candidate that lands.

A stage starts when the previous stage has finished for all candidates. Makers, reviewers and test runners of all candidates
work in parallel, and the order of their answers has no effect. An eliminated candidate gets no further judge; the others
continue. The last answer of the last stage triggers the choice (``gatewright.run.choice``).
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import Error, ReviewReport, TaskResult, TestReport
from gatewright.rules import endings
from gatewright.rules import task_contracts as orders
from gatewright.rules.rounds import curable
from gatewright.run import choice
from gatewright.run import events as e
from gatewright.run.candidates import all_worked
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.gate_checks import CandidateVerdict, DiffVerdict, Verdict, verdict_of
from gatewright.services.gatekeeper.decider.inputs import RoleReplied


def record_answer(draft: Draft, item: RoleReplied, verdicts: Sequence[Verdict]) -> None:
    """Record a role's answer about one candidate and the gate's verdict on it; continue when it was the last of its stage."""
    match item.document:
        case Error() as error:
            draft.add(e.TaskFailed(error=error))
        case TaskResult() as result:
            draft.finished(result, verdict_of(verdicts, DiffVerdict))
        case ReviewReport() as review:
            draft.add(e.ReviewReceived(report=review))
        case TestReport() as tests:
            draft.add(e.TestsReceived(report=tests))
        case _:
            return
    if not verdicts and _must_be_judged(item):
        draft.end("FAILED", "gate_not_evaluated", "a gate that had to judge this gave no answer")
        return
    for verdict in verdicts:
        draft.judged(verdict.report)
    _settle(draft)


def _must_be_judged(item: RoleReplied) -> bool:
    return not isinstance(item.document, Error) and not (
        isinstance(item.document, TaskResult) and item.document.status != "SUCCESS"
    )


def compose(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    """Record the composed change of each candidate and its verdict; dispatch reviews of those that pass."""
    numbers = draft.run.in_the_running()
    if len(verdicts) != len(numbers):
        draft.end("FAILED", "gate_not_evaluated", "a gate that had to judge this gave no answer")
        return
    for number, verdict in zip(numbers, verdicts, strict=True):
        if draft.judged(verdict.report) and isinstance(verdict, CandidateVerdict):
            draft.add(verdict.composed(number))
    if not draft.run.in_the_running():
        _none_left(draft)
        return
    draft.add(e.StateEntered(state="S3"))
    draft.dispatch_judge("reviewer", orders.reviewing)


def _settle(draft: Draft) -> None:
    """Continue when the stage has finished for every candidate."""
    run = draft.run
    going = [run.candidates[number] for number in run.in_the_running()]
    match run.state:
        case "S2" if all_worked(run) and not going:
            _none_left(draft)
        case "S3" | "S4" if not going:
            _none_left(draft)
        case "S3" if all(state.reviewed for state in going):
            draft.add(e.StateEntered(state="S4"))
            draft.dispatch_judge("testrunner", orders.testing)
        case "S4" if all(state.tests_passed for state in going):
            ranked = choice.standings(run)
            if (number := choice.best(ranked)) is not None:
                draft.add(e.CandidateChosen(candidate=number, standings=ranked))


def _none_left(draft: Draft) -> None:
    """Start another round for candidates with curable faults, each with its own findings; otherwise end the run."""
    run = draft.run
    again = list(curable(run))
    if again:
        draft.fix(run.candidates[again[0][0].candidate].failure, again)
        return
    draft.fail(endings.none_passed(run))
