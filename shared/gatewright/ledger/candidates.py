"""Best of several: one order is carried out by several makers at once, each result is judged alone, and the best one lands.

A run with candidates has one worker task for each in every round, and one review and one test task for each that came so far.
``seen_from`` shows such a run as if one of them were the only one: that is what every gate is given, so none needs to know of
the others. ``standings`` and ``best`` are the rule of the choice. All of it is pure, and rests on the run's events alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from gatewright.budgets import BILLION
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Executor
from gatewright.ledger import events as e
from gatewright.ledger.run import CandidateState, FoundReason, Run, RunTask
from gatewright.ledger.spending import usage_of

#: The outcome of a candidate that every gate has passed.
PASSED = "passed"
#: A candidate that is not through yet.
OPEN = "open"
#: Why a run ends that no candidate passed.
NONE_PASSED = "no_candidate_passed"
#: The rule, as it is shown to people.
RULE = "fewest findings, fewest changed lines, least cost (US dollars, unknown last, then tokens), lowest number"
#: A role may name its reason only in this form; anything else is recorded as words.
REASON = re.compile(r"[a-z][a-z0-9_]{2,47}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def orders_of(shard: TaskContract) -> tuple[TaskContract, ...]:
    """What is given out for one part of a plan: the part itself, or for each candidate its own copy, with its own executor."""
    return tuple(
        msgspec.structs.replace(
            shard, task_id=f"{shard.task_id}.c{number}", executor=executor, candidates=None, candidate=number
        )
        for number, executor in enumerate(shard.candidates or (), 1)
    ) or (shard,)


def found_now(run: Run) -> Iterator[FoundReason]:
    """What gates found in what the run has now: in the contract, or in the candidate of this attempt that is to land."""
    for found in run.found_reasons:
        of_contract = found.reason == "broad_scope" or found.reason.startswith(e.COMMAND)
        if of_contract or (found.attempt == run.attempt and found.candidate in {0, run.chosen}):
            yield found


def seen_from(run: Run, number: int) -> Run:
    """The run as if candidate ``number`` were its only one; the run itself for 0, which is none."""
    if not number:
        return run
    state = run.candidates.get(number, CandidateState())
    return replace(
        run,
        tasks={task_id: task for task_id, task in run.tasks.items() if task.candidate in {0, number}},
        chosen=number,
        candidate=state.composed,
        review=state.review,
        tests=state.tests,
        tests_passed=state.tests_passed,
    )


def candidate_of(run: Run, payload: e.Payload) -> int:
    """The candidate that an event is about; 0 for one that is about the run, or about a run without candidates."""
    match payload:
        case e.TaskDispatched(task_id=task_id, contract=contract):
            return (contract.candidate or 0) if contract is not None else _of_task(run, task_id)
        case e.TaskFinished(result=result):
            return _of_task(run, result.task_id)
        case e.TaskFailed(error=error):
            return _of_task(run, error.task_id)
        case e.CandidateComposed(candidate=number):
            return number or 0
        case e.ReviewReceived(report=report) | e.TestsReceived(report=report) | e.GateJudged(report=report):
            return _of_task(run, report.task_id)
        case _:
            return 0


def put_back(run: Run, number: int, seen: Run, payload: e.Payload) -> Run:
    """``run`` after an event about a candidate, of which ``seen`` is what became of the run as that one sees it."""
    before = run.candidates.get(number, CandidateState())
    state = CandidateState(
        composed=seen.candidate,
        review=seen.review,
        reviewed=before.reviewed or _passes(payload, "reviewer"),
        tests=seen.tests,
        tests_passed=seen.tests_passed,
        failure=before.failure or _failure(payload),
    )
    return replace(run, tasks={**run.tasks, **seen.tasks}, candidates={**run.candidates, number: state})


def chosen(run: Run, number: int) -> Run:
    """The run once candidate ``number`` is the one that lands; what became of the others stays beside it."""
    seen = seen_from(run, number)
    return replace(seen, tasks=run.tasks)


def in_the_running(run: Run) -> tuple[int, ...]:
    """The candidates that nothing has put out, by number."""
    return tuple(number for number, state in sorted(run.candidates.items()) if not state.failure)


def all_worked(run: Run) -> bool:
    """Whether every maker of this round has answered."""
    return all(task.status in {"SUCCESS", "FAILED"} for task in run.workers())


def standings(run: Run) -> tuple[e.Standing, ...]:
    """How each candidate came out, the best first, by ``RULE``; those that did not pass come last, by number."""
    return tuple(sorted((_standing(run, number) for number in sorted(run.candidates)), key=_rank))


def best(ranked: Sequence[e.Standing]) -> int | None:
    """The candidate that lands: the first of ``standings``; None where none passed."""
    return ranked[0].candidate if ranked and ranked[0].outcome == PASSED else None


def why_chosen(ranked: Sequence[e.Standing]) -> str:
    """What the first of ``standings`` has before the second, in words; empty where nothing was chosen."""
    passed = [standing for standing in ranked if standing.outcome == PASSED]
    if not passed:
        return ""
    if len(passed) == 1:
        return "the only one that passed every gate"
    first, second = passed[:2]
    facts = (
        ("fewer findings", first.findings, second.findings),
        ("fewer changed lines", first.changed_lines, second.changed_lines),
        ("less cost", first.cost_usd, second.cost_usd),
        ("fewer tokens", first.tokens, second.tokens),
    )
    for words, mine, others in facts:
        if mine is not None and others is None:
            return f"a known cost, which candidate {second.candidate} does not have"
        if mine is not None and others is not None and mine != others:
            return f"{words} than candidate {second.candidate} ({mine:g} and {others:g})"
    return f"equal to candidate {second.candidate} in findings, lines and cost, and numbered before it"


def makers(run: Run) -> tuple[RunTask, ...]:
    """Every worker task of the run, of all candidates and rounds: who did one of them judges none."""
    return tuple(task for task in run.tasks.values() if task.role == "worker")


def made_by(run: Run) -> Executor | None:
    """How the change is made that ``run``, as it is seen from a candidate where there are several, is about."""
    contract = run.contract
    if contract is None or not contract.candidates:
        return contract.executor if contract is not None else None
    return contract.candidates[run.chosen - 1] if 0 < run.chosen <= len(contract.candidates) else None


def reason_of(failure: str, default_code: str) -> str:
    """The code that a role's own words about its failure begin with, where they begin with one."""
    code = failure.partition(":")[0]
    return code if REASON.fullmatch(code) else default_code


def _of_task(run: Run, task_id: str | None) -> int:
    task = run.tasks.get(task_id or "")
    return task.candidate if task is not None else 0


def _passes(payload: e.Payload, gate: str) -> bool:
    return isinstance(payload, e.GateJudged) and payload.report.gate == gate and payload.report.verdict == "PASS"


def _failure(payload: e.Payload) -> str:
    """The code of what puts a candidate out; empty for all that does not."""
    match payload:
        case e.GateJudged(report=report) if report.verdict != "PASS":
            return report.code
        case e.TaskFinished(result=result) if result.status != "SUCCESS":
            return reason_of(result.failure or "", "executor_failed")
        case e.TaskFailed(error=error):
            return reason_of(error.code, "task_failed")
        case _:
            return ""


def _standing(run: Run, number: int) -> e.Standing:
    state = run.candidates[number]
    spent = usage_of(task for task in makers(run) if task.candidate == number)
    return e.Standing(
        candidate=number,
        outcome=state.failure or (PASSED if state.tests_passed else OPEN),
        findings=len(state.review.findings) if state.review is not None else 0,
        changed_lines=state.composed.changed_lines or 0 if state.composed is not None else 0,
        cost_usd=None if spent.least else spent.nano_usd / BILLION,
        tokens=spent.tokens,
    )


def _rank(standing: e.Standing) -> tuple[bool, int, int, bool, float, int, int]:
    if standing.outcome != PASSED:
        return True, 0, 0, False, 0.0, 0, standing.candidate
    cost = standing.cost_usd
    facts = standing.findings, standing.changed_lines, cost is None, cost or 0.0, standing.tokens
    return False, *facts, standing.candidate
