"""``evolve(run, event) -> run``: the only way a run changes.

Pure. Live operation, crash recovery, replay and every read model fold the same events with this function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from gatewright.contracts.records import OrchestratorEvent, Transition
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import MalformedError
from gatewright.ledger import events as e
from gatewright.ledger.run import Run, RunFailure, RunTask, TaskStatus
from gatewright.ledger.spending import most


def evolve(run: Run | None, record: OrchestratorEvent) -> Run:
    """The run after one more event.

    Raises MalformedError when the event cannot follow: a first event that is not ``run_accepted``, a state that may not
    come next, anything but the seal after the end.
    """
    payload = e.payload_of(record)
    if run is None:
        if not isinstance(payload, e.RunAccepted):
            raise MalformedError("a run begins with run_accepted", code="bad_event")
        run = Run(
            run_id=record.run_id,
            trace_id=record.trace_id,
            accepted=payload,
            contract=payload.contract,
            created_at=record.ts,
        )
    elif run.ended and not isinstance(payload, e.BundleSealed | e.RunFinished):
        raise MalformedError(f"{record.event_type} after the end of the run", code="bad_event")
    else:
        run = _apply(run, payload, record)
    return replace(run, seq=record.seq, head=record.hash, at=record.ts)


def fold(transitions: Iterable[Transition], run: Run | None = None) -> Run | None:
    """The run that a sequence of ledger messages adds up to; None for none."""
    for transition in transitions:
        for record in transition.events:
            run = evolve(run, record)
        if run is not None:
            run = replace(run, transitions=transition.number)
    return run


def _apply(run: Run, payload: e.Payload, record: OrchestratorEvent) -> Run:  # noqa: C901, PLR0912 - one line an event
    match payload:
        case e.StateEntered(state=state):
            return _enter(run, state)
        case e.ContractCompiled(contract=contract):
            return replace(_settle(run, "pm", "SUCCESS"), contract=contract)
        case e.PlanAccepted(plan=plan):
            run = replace(_settle(run, "techlead", "SUCCESS"), plan=plan)
            return _with(run, *(RunTask(c.task_id, "worker", "", "PENDING", run.attempt, c) for c in plan.contracts))
        case e.TaskDispatched():
            return _dispatched(run, payload)
        case e.LocksWaiting():
            return replace(run, waiting_for_locks=True)
        case e.LocksTaken():
            return replace(run, locks=payload, waiting_for_locks=False)
        case e.TaskFinished(result=result, accepted=accepted, tree=tree):
            done: TaskStatus = "SUCCESS" if accepted else "FAILED"
            return _with(run, replace(_given(run, result.task_id), status=done, result=result, tree=tree))
        case e.TaskFailed(error=error):
            task = run.tasks.get(error.task_id or "")
            return _with(run, replace(task, status="FAILED")) if task else run
        case e.CandidateComposed():
            return replace(run, candidate=payload)
        case e.ReviewReceived(report=review):
            return replace(_settle(run, "reviewer", "SUCCESS" if review.verdict == "PASS" else "FAILED"), review=review)
        case e.TestsReceived(report=tests):
            return replace(_settle(run, "testrunner", "SUCCESS" if tests.status == "PASS" else "FAILED"), tests=tests)
        case e.GateJudged(report=report):
            passed = report.gate == "tests" and report.verdict == "PASS"
            return replace(run, tests_passed=True) if passed else run
        case e.FixOrdered():
            return replace(_fix(run, payload), fix_ordered_at=record.ts)
        case e.UsageReported(task_id=task_id, usage=usage):
            return _used(run, _given(run, task_id), usage)
        case e.Landed():
            return replace(run, landed=payload)
        case e.RunFinished(status=status, code=code, message=message):
            failure = None if status == "SUCCESS" else RunFailure(code, message)
            return replace(run, failure=failure, finished_at=record.ts)
        case e.BundleSealed():
            return replace(run, sealed=payload)
        case e.AnswerIgnored():
            return _with(run, replace(_given(run, record.task_id or ""), answered_late=True))
        case e.AbortRequested() | e.BudgetExceeded():
            return run
        case _:
            raise MalformedError(f"{payload.event_type} cannot happen here", code="bad_event")


def _enter(run: Run, state: e.State) -> Run:
    allowed = (*e.SUCCESSORS[run.state], "FAILED", "ABORTED") if not run.ended else ()
    if state not in allowed:
        raise MalformedError(f"{state} may not follow {run.state}", code="bad_event")
    return replace(run, state=state)


def _dispatched(run: Run, payload: e.TaskDispatched) -> Run:
    known = run.tasks.get(payload.task_id)
    if known is not None:
        contract = known.contract
        if contract is not None and payload.budget is not None:
            contract = msgspec.structs.replace(contract, budget=payload.budget)
        return _with(run, replace(known, status="RUNNING", pool=payload.pool, contract=contract))
    return _with(run, RunTask(payload.task_id, payload.role, payload.pool, "RUNNING", run.attempt, payload.contract))


def _fix(run: Run, payload: e.FixOrdered) -> Run:
    run = replace(run, attempt=payload.attempt, candidate=None, review=None, tests=None, tests_passed=False)
    return _with(run, *(RunTask(c.task_id, "worker", "", "PENDING", payload.attempt, c) for c in payload.contracts))


def _used(run: Run, task: RunTask, usage: Usage) -> Run:
    return _with(run, replace(task, usage={**task.usage, usage.delivery: most(task.usage.get(usage.delivery), usage)}))


def _given(run: Run, task_id: str) -> RunTask:
    task = run.tasks.get(task_id)
    if task is None:
        raise MalformedError(f"a result of {task_id[:80]!r}, which was never given out", code="bad_event")
    return task


def _settle(run: Run, role: str, status: TaskStatus) -> Run:
    task = next((task for task in run.tasks.values() if task.role == role and task.status == "RUNNING"), None)
    return _with(run, replace(task, status=status)) if task else run


def _with(run: Run, *tasks: RunTask) -> Run:
    return replace(run, tasks={**run.tasks, **{task.task_id: task for task in tasks}})
