"""``evolve(run, event) -> run``: the only way a run changes.

Pure. Live operation, crash recovery, replay and every read model fold the same events with this function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import GateReport, TaskContract
from gatewright.contracts.records import OrchestratorEvent, Transition
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import MalformedError
from gatewright.ledger import events as e
from gatewright.ledger.candidates import candidate_of, chosen, orders_of, put_back, seen_from
from gatewright.ledger.expiry import expired
from gatewright.ledger.run import AskedApproval, AskedSummons, CandidateState, FoundReason, Run, RunFailure, RunTask, TaskStatus
from gatewright.ledger.spending import most
from gatewright.ledger.votes import answered, held, taken_over, withdrawn, without_asker

#: What may come after the end: reports of the work that the end interrupted are taken until the bundle is sealed.
_AFTER_END = (e.BundleSealed, e.RunFinished, e.UsageReported, e.TaskInterrupted)


def evolve(run: Run | None, record: OrchestratorEvent) -> Run:
    """The run after one more event.

    Of a run that has expired the last event is all there is, and enough. Raises MalformedError when the event cannot follow: a
    first event that is not ``run_accepted``, a state that may not come next, anything but late reports of use,
    the seal and expiry after the end.
    """
    payload = e.payload_of(record)
    if isinstance(payload, e.RunExpired):
        return expired(run, payload, record)
    if run is None:
        if not isinstance(payload, e.RunAccepted):
            raise MalformedError("a run begins with run_accepted", code="bad_event")
        run = Run(
            run_id=record.run_id,
            trace_id=record.trace_id,
            accepted=payload,
            contract=payload.contract,
            pools=payload.pools,
            created_at=record.ts,
        )
    elif run.ended and not isinstance(payload, _AFTER_END):
        raise MalformedError(f"{record.event_type} after the end of the run", code="bad_event")
    elif number := candidate_of(run, payload):
        run = put_back(run, number, _apply(seen_from(run, number), payload, record), payload)
    else:
        run = _apply(run, payload, record)
    if isinstance(payload, e.GateJudged):
        run = replace(run, found_reasons=(*run.found_reasons, *_found(run, payload.report, candidate_of(run, payload))))
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
            return _enter(run, state, record.ts)
        case e.ApprovalRequested() | e.ApprovalDecided() | e.ApprovalByRule() | e.ApprovalByGrant() | e.ApprovalExpired():
            said = isinstance(payload, e.ApprovalDecided | e.ApprovalByGrant)
            return replace(_asked(run, payload, record.ts), roster_held_at="" if said else run.roster_held_at)
        case e.RosterHeld():
            return replace(run, approvals=held(run.approvals, payload), roster_held_at=record.ts)
        case e.LocksReleased():
            return replace(run, locks=None)
        case e.ContractCompiled(contract=contract, pools=pools):
            return replace(_settle(run, "pm", "SUCCESS"), contract=contract, pools=pools)
        case e.PlanAccepted(plan=plan):
            run = replace(_settle(run, "techlead", "SUCCESS"), plan=plan)
            return _planned(run, [order for shard in plan.contracts for order in orders_of(shard)])
        case e.TaskDispatched():
            return _dispatched(run, payload)
        case e.LocksWaiting():
            return replace(run, waiting_for_locks=True)
        case e.LocksTaken():
            return replace(run, locks=payload, waiting_for_locks=False)
        case e.TaskFinished(result=result, accepted=accepted, tree=tree):
            done: TaskStatus = "SUCCESS" if accepted else "FAILED"
            run = replace(run, approvals=without_asker(run.approvals, {result.task_id}))
            return _with(run, replace(_given(run, result.task_id), status=done, result=result, tree=tree))
        case e.TaskFailed(error=error):
            task = run.tasks.get(error.task_id or "")
            run = replace(run, approvals=without_asker(run.approvals, {error.task_id or ""}))
            return _with(run, replace(task, status="FAILED")) if task else run
        case e.CandidateComposed():
            return replace(run, candidate=payload)
        case e.ReviewReceived(report=review):
            return replace(_settle(run, "reviewer", "SUCCESS" if review.verdict == "PASS" else "FAILED"), review=review)
        case e.TestsReceived(report=tests):
            return replace(_settle(run, "testrunner", "SUCCESS" if tests.status == "PASS" else "FAILED"), tests=tests)
        case e.GateJudged(report=report):
            if report.gate in {"diff", "reviewer", "tests"} and report.verdict == "FAIL":
                return replace(run, refusal=report)
            passed = report.gate == "tests" and report.verdict == "PASS"
            return replace(run, tests_passed=True) if passed else run
        case e.ReviewRouted(routing=routing):
            return replace(run, routing=routing)
        case e.TransferPlanned(manifest=manifest):
            return replace(run, transfers=(*run.transfers, manifest))
        case e.SummonsAsked() | e.SummonsAnswered():
            return _summoned(run, payload, record.ts)
        case e.CandidateChosen(candidate=number):
            return chosen(run, number)
        case e.FixOrdered():
            return replace(_fix(run, payload), fix_ordered_at=record.ts)
        case e.UsageReported(task_id=task_id, usage=usage):
            return _used(run, _given(run, task_id), usage)
        case e.TaskInterrupted(task_id=task_id):
            return _interrupted(run, _given(run, task_id), payload)
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


def _enter(run: Run, state: e.State, now: str) -> Run:
    allowed = (*e.SUCCESSORS[run.state], "FAILED", "ABORTED") if not run.ended else ()
    goes_on = {run.parked_from, *e.SENT_BACK.get(run.parked_from or "", ()), "FAILED", "ABORTED"}
    if state not in allowed or (run.parked and state not in goes_on):
        raise MalformedError(f"{state} may not follow {run.state}", code="bad_event")
    if state == e.PARKED:
        return replace(run, state=state, parked_from=run.state, parked_at=now)
    if run.parked:
        waited = (datetime.fromisoformat(now) - datetime.fromisoformat(run.parked_at)).total_seconds()
        run = replace(run, parked_from=None, parked_at="", parked_seconds=run.parked_seconds + max(0.0, waited))
    return replace(run, state=state)


_Answer = e.ApprovalDecided | e.ApprovalByRule | e.ApprovalByGrant | e.ApprovalExpired


def _asked(run: Run, payload: e.ApprovalRequested | _Answer, now: str) -> Run:
    """What becomes of a request: it is made once, and answered once; comments change nothing about it."""
    if isinstance(payload, e.ApprovalRequested):
        request = payload.request
        if request.request_id in run.approvals:
            raise MalformedError(f"{request.request_id} was asked before", code="bad_event")
        before = taken_over(run.approvals, request.question) if request.question is not None else run.approvals
        return replace(run, approvals={**before, request.request_id: AskedApproval(request)})
    known = run.approvals.get(payload.request_id)
    if known is None or known.status != "pending":
        raise MalformedError(f"{payload.request_id[:80]!r} waits for no answer", code="bad_event")
    match payload:
        case e.ApprovalDecided():
            known = answered(known, payload, now)
        case e.ApprovalByRule(rule=rule):
            known = replace(known, status="autopilot", person=rule, at=now)
        case e.ApprovalByGrant(approver=person):
            known = replace(known, status="granted", person=person.name, at=now, spoken=(payload,))
        case _:
            known = replace(known, status="expired", at=now)
    return replace(run, approvals={**run.approvals, payload.request_id: known})


def _summoned(run: Run, payload: e.SummonsAsked | e.SummonsAnswered, now: str) -> Run:
    """A question is asked once, and answered once."""
    if isinstance(payload, e.SummonsAsked):
        task = payload.task
        if task.task_id in run.summonses or task.task_id in run.tasks:
            raise MalformedError(f"{task.task_id[:80]!r} was given out before", code="bad_event")
        asked = AskedSummons(task, run.pools.get(task.item.role, DEFAULT_POOL), now)
        return replace(run, summonses={**run.summonses, task.task_id: asked})
    known = run.summonses.get(payload.answer.task_id)
    if known is None or known.answer is not None:
        raise MalformedError(f"{payload.answer.task_id[:80]!r} waits for no answer", code="bad_event")
    return replace(run, summonses={**run.summonses, known.task.task_id: replace(known, answer=payload.answer)})


def _found(run: Run, report: GateReport, candidate: int) -> tuple[FoundReason, ...]:
    """What a verdict says that a person may have to be asked about."""
    return tuple(
        FoundReason(rule.rule.removeprefix(e.ASKS), rule.detail, run.attempt, candidate)
        for rule in report.rules
        if rule.rule.startswith(e.ASKS)
    )


def _dispatched(run: Run, payload: e.TaskDispatched) -> Run:
    known = run.tasks.get(payload.task_id)
    if known is not None:
        contract = known.contract
        if contract is not None and payload.budget is not None:
            contract = replace(contract, budget=payload.budget)
        return _with(run, replace(known, status="RUNNING", pool=payload.pool, contract=contract))
    return _with(run, RunTask(payload.task_id, payload.role, payload.pool, "RUNNING", run.attempt, payload.contract))


def _fix(run: Run, payload: e.FixOrdered) -> Run:
    # A test runner may still be at the change that the reviewer refused: what it answers will be of another attempt.
    abandoned = (replace(task, status="FAILED") for task in run.tasks.values() if task.status == "RUNNING")
    run = replace(_with(run, *abandoned), attempt=payload.attempt, candidate=None, review=None, tests=None, tests_passed=False)
    kept = without_asker(withdrawn(run.approvals), run.tasks.keys())
    run = replace(run, routing=None, refusal=None, approvals=kept)
    return _planned(run, payload.contracts)


def _planned(run: Run, orders: Sequence[TaskContract]) -> Run:
    """What the workers of a round are to be given; a candidate that is among them starts anew."""
    fresh = {order.candidate: CandidateState() for order in orders if order.candidate is not None}
    run = replace(run, candidates={**run.candidates, **fresh})
    return _with(run, *(RunTask(order.task_id, "worker", "", "PENDING", run.attempt, order) for order in orders))


def _used(run: Run, task: RunTask, usage: Usage) -> Run:
    return _with(run, replace(task, usage={**task.usage, usage.delivery: most(task.usage.get(usage.delivery), usage)}))


def _interrupted(run: Run, task: RunTask, payload: e.TaskInterrupted) -> Run:
    delivery = payload.usage.delivery
    if delivery in task.interrupted:
        raise MalformedError(f"delivery {delivery} of {task.task_id[:80]!r} was interrupted before", code="bad_event")
    return _used(run, replace(task, interrupted={**task.interrupted, delivery: payload}), payload.usage)


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
