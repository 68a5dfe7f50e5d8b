"""``decide(run, input, verdicts, now) -> transition``: the only place that decides how a run changes state.

Pure: no clock, no bus, no files. An input that has no effect (a duplicate, an answer out of turn, anything after the end)
returns None and changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from gatewright.budgets import Excess, overdrawn
from gatewright.contracts import Error, GateReport, Plan, ReviewReport, RunRequest, TaskContract, TaskResult, TestReport, codec
from gatewright.contracts.records import Transition
from gatewright.contracts.transfers import TransferManifest
from gatewright.order_artifacts.hidden_acceptance import with_hidden_part
from gatewright.rules import endings
from gatewright.rules import task_contracts as orders
from gatewright.rules.endings import BUDGET_EXCEEDED
from gatewright.rules.people.ownership import requester_of
from gatewright.rules.rounds import CURABLE, repairable
from gatewright.rules.routing import route
from gatewright.rules.shards import plan_task_id
from gatewright.rules.standing import APPROVAL_LAPSED
from gatewright.rules.transfers import oversent
from gatewright.run import events as e
from gatewright.run import states
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.decider import candidates, people, summons
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.gate_checks import (
    CandidateVerdict,
    ContractVerdict,
    DecisionVerdict,
    DiffVerdict,
    GrantsVerdict,
    IntakeVerdict,
    LandingVerdict,
    LocksVerdict,
    PlanVerdict,
    PullVerdict,
    QueueVerdict,
    Verdict,
    WithdrawalVerdict,
    comes_before_its_turn,
    expected_task,
    late,
    misfit,
    next_step,
    verdict_of,
)
from gatewright.services.gatekeeper.decider.inputs import (
    AbortReceived,
    BaseObserved,
    Continue,
    DeadlineReached,
    DecisionsReceived,
    Input,
    QuestionReceived,
    RoleReplied,
    SealReported,
    Submitted,
    SummonsReceived,
    UsageReceived,
)


def decide(run: Run | None, item: Input, verdicts: Sequence[Verdict], now: datetime) -> Transition | None:
    """Return the transition that ``item`` causes.

    Args:
        run: the run before the input; None before its first event.
        item: the input.
        verdicts: the answers to ``required_checks(run, item)``. A missing one fails the run (fail closed).
        now: the current time. Events never get a time before the previous event of the run.

    Returns:
        The transition, or None when the input has no effect.
    """
    if run is None:
        return _accept(item, verdicts, now) if isinstance(item, Submitted) else None
    if next_step(run) == "land" and not isinstance(item, Continue):
        # Another gatekeeper may be landing the change at this moment. A ref moves once and cannot be rolled back.
        return None
    # Clocks of replicas differ. Events of a run must be ordered by time: none is older than the event before it.
    draft = Draft(run, item, max(now, datetime.fromisoformat(run.at)))
    match item:
        case SealReported() if run.ended and run.sealed is None:
            draft.add(
                e.BundleSealed(
                    manifest_sha256=item.manifest_sha256, signer=item.signer, location=item.location, memory=item.memory
                )
            )
        case AbortReceived() if not run.ended:
            _abort(draft, item, verdicts)
        case RoleReplied() if not run.ended:
            _role_reply(draft, item, verdicts)
        case UsageReceived() if run.sealed is None:
            _record_usage(draft, item)
        case DecisionsReceived() | SummonsReceived() | QuestionReceived() | BaseObserved() if not run.ended:
            _people_input(draft, item, verdicts)
        case DeadlineReached() if run.state in states.WAITING:
            people.expire_beside(draft)
            people.expire(draft)
        case DeadlineReached() if not run.ended:
            people.expire_beside(draft)
            summons.expire_advice(draft)
            if not draft.run.ended and not draft.over_budget() and draft.back_off_is_over():
                draft.try_again()
        case Continue() if not run.ended:
            _continue(draft, verdicts)
        case _:
            return None
    return draft.transition()


def _accept(item: Submitted, verdicts: Sequence[Verdict], now: datetime) -> Transition | None:
    verdict = verdict_of(verdicts, IntakeVerdict)
    if verdict is None:
        return None
    document = verdict.document
    request, contract = (document, None) if isinstance(document, RunRequest) else (None, document)
    repository = document.repository
    accepted = e.RunAccepted(
        user_request=orders.user_request(document),
        requested_by=requester_of(document),
        repository_url=repository.url if repository else "",
        submitted_sha256=item.submitted_sha256,
        policy_sha256=verdict.policy_sha256,
        versions=verdict.versions,
        baseline_commit=verdict.baseline_commit,
        baseline_tree=verdict.baseline_tree,
        request=request,
        contract=contract,
        policies=verdict.policies,
        host=verdict.host,
        publisher=item.publisher,
        document_sha256=item.document_sha256,
        repository_identity=verdict.repository_identity,
        mutation=verdict.mutation,
        judging=verdict.judging,
        pools=verdict.pools,
        caller_span=item.caller_span,
        approval_rules=verdict.approval_rules,
        routing=verdict.routing,
        memory=verdict.memory,
        recording=e.RECORDING,
        idempotency_key=item.key,
        named_publishers=verdict.named_publishers,
        orderers=verdict.orderers,
        task_type=document.task_type,
    )
    draft = Draft.begin(item, accepted, now)
    if not draft.judged(verdict.report):
        draft.refuse(verdict.report)
    elif contract is None:
        draft.dispatch(orders.pm_task_id(item.run_id), "pm", None)
    else:
        _plan(draft, contract, verdict.transfers)
    return draft.transition()


def _plan(draft: Draft, contract: TaskContract, transfers: Sequence[TransferManifest] = ()) -> None:
    draft.add(e.StateEntered(state="S1"))
    for manifest in transfers:
        draft.add(e.TransferPlanned(manifest=manifest))
    if draft.run.kind.plans:
        draft.dispatch(plan_task_id(draft.run.run_id), "techlead", orders.planning(contract, draft.run.run_id))


def _people_input(
    draft: Draft, item: DecisionsReceived | SummonsReceived | QuestionReceived | BaseObserved, verdicts: Sequence[Verdict]
) -> None:
    """Apply decisions and questions of people, or a permission request of an agent."""
    if isinstance(item, SummonsReceived):
        summons.record_questions(draft, item)
    elif isinstance(item, QuestionReceived):
        people.ask_leave(draft, item.question)
    elif isinstance(item, BaseObserved):
        people.void_votes(draft, item)
    else:
        people.record_decisions(draft, verdict_of(verdicts, DecisionVerdict))


def _role_reply(draft: Draft, item: RoleReplied, verdicts: Sequence[Verdict]) -> None:
    if (question := summons.question_of(draft.run, item)) is not None:
        summons.record_answer(draft, item, question)
        return
    if draft.run.state == states.QUEUED:
        _record_ignored(draft, item)
        return
    if misfit(draft.run, item) is not None:
        words = f"the {item.role} answered with a document that is not the one its task is bound to"
        draft.end("FAILED", "output_schema_mismatch", words)
        return
    task = expected_task(draft.run, item)
    if task is None:
        _record_ignored(draft, item)
    elif _within_budget(draft, item, task):
        if task.candidate:
            candidates.record_answer(draft, item, verdicts)
        else:
            _record_reply(draft, item, verdicts)
        people.ask_beside(draft)


def _record_reply(draft: Draft, item: RoleReplied, verdicts: Sequence[Verdict]) -> None:
    match item.document:
        case Error() as error:
            draft.add(e.TaskFailed(error=error))
            draft.fail(endings.task_failed(error))
        case TaskContract() as contract:
            if _passing(draft, verdicts):
                request = draft.run.request
                contract = contract if request is None else with_hidden_part(contract, request)
                compiled = verdict_of(verdicts, ContractVerdict)
                pools, transfers = (compiled.pools, compiled.transfers) if compiled is not None else ({}, ())
                draft.add(e.ContractCompiled(contract=contract, pools=pools))
                _plan(draft, contract, transfers)
        case Plan() as plan:
            if _passing(draft, verdicts):
                judged = verdict_of(verdicts, PlanVerdict)
                for manifest in judged.transfers if judged is not None else ():
                    draft.add(e.TransferPlanned(manifest=manifest))
                draft.add(e.PlanAccepted(plan=plan))
                _finish_document(draft)
        case TaskResult() as result:
            _record_work(draft, result, verdicts)
        case ReviewReport() as review:
            draft.add(e.ReviewReceived(report=review))
            if _passing(draft, verdicts[:1], evidence=review) and not _finish_document(draft):
                draft.add(e.StateEntered(state="S4"))
                _test(draft, verdicts[1:])
        case TestReport() as tests:
            early = comes_before_its_turn(draft.run)
            draft.add(e.TestsReceived(report=tests))
            if not early and _passing(draft, verdicts, evidence=tests):
                _finish_document(draft)


def _finish_document(draft: Draft) -> bool:
    """End a run that lands nothing once its last gate has passed, unless people are asked first. Return False for a change."""
    run = draft.run
    if run.kind.lands:
        return False
    if run.kind.voted and next_step(run) in {"route", "refuse", "ask"}:
        return True
    draft.add(e.StateEntered(state="S6"))
    draft.finish("SUCCESS", *endings.document_ending(run))
    return True


def _test(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    """Continue after a passed review: judge the test report if it is there, wait for it or for packages, or dispatch it."""
    run = draft.run
    if run.tests is not None:
        _passing(draft, verdicts, evidence=run.tests)
    elif run.awaits_environment:
        return  # the next step asks people, or the puller
    elif run.running("testrunner") is None:
        draft.dispatch_judge("testrunner", orders.testing)


def _within_budget(draft: Draft, item: RoleReplied, task: RunTask) -> bool:
    """Record the usage that an answer reports.

    Return False when a budget or the deadline is exceeded: the answer is rejected.
    """
    result = item.document if isinstance(item.document, TaskResult) else None
    if result is not None and result.usage is not None:
        draft.used(task, result.usage)
    if draft.excess() is None and not oversent(draft.run):
        return True
    if result is not None:
        draft.add(e.TaskFinished(result=result, accepted=False))
    return not (draft.over_budget() or draft.over_leave())


def _record_usage(draft: Draft, item: UsageReceived) -> None:
    """Record a usage report of any attempt or delivery, also after the end: resources that were used stay used."""
    task = draft.run.tasks.get(item.document.task_id)
    if task is not None and task.role == item.role and task.status != "PENDING":
        draft.interrupted(task, item.document)
        # In the merge queue the work is done, and the push of the change may be under way.
        if not draft.run.ended and draft.run.state != states.QUEUED and not draft.over_budget():
            draft.over_leave()


def _record_ignored(draft: Draft, item: RoleReplied) -> None:
    """Record that a stale attempt answered, as evidence. The answer has no effect."""
    task = late(draft.run, item)
    if task is not None:
        digest = hashlib.sha256(codec.encode(item.document)).hexdigest()
        attempt = item.document.attempt if isinstance(item.document, TaskResult) else task.attempt
        reason: Literal["task_done", "attempt_over"] = (
            "task_done" if attempt == task.attempt == draft.run.attempt else "attempt_over"
        )
        event = e.AnswerIgnored(reason=reason, message_id=item.message_id, document_sha256=digest)
        draft.add(event, task_id=task.task_id)


def _record_work(draft: Draft, result: TaskResult, verdicts: Sequence[Verdict]) -> None:
    draft.finished(result, verdict_of(verdicts, DiffVerdict))
    if result.status != "SUCCESS":
        why, task = endings.worker_failed(result), draft.run.tasks[result.task_id]
        gone = _share_used_up(task, result) if why.code == BUDGET_EXCEEDED else None
        if gone is not None:
            draft.exceeded(gone, task)
            return
        draft.fail(why)
    elif _passing(draft, verdicts):
        draft.dispatch_ready_workers()


def _share_used_up(task: RunTask, result: TaskResult) -> Excess | None:
    """Return the budget that a task exceeded: by its reported usage, else its wall time."""
    share = task.contract.budget if task.contract is not None else None
    if share is None:
        return None
    if result.usage is not None and (gone := overdrawn(share, result.usage)) is not None:
        return gone
    return Excess("wall_sec", share.wall_sec, share.wall_sec) if share.wall_sec is not None else None


def _continue(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    match next_step(draft.run):
        case "route":
            draft.add(e.ReviewRouted(routing=route(draft.run)))
        case "advise":
            summons.ask_model(draft)
        case "refuse":
            draft.fail(endings.orderer_unknown(draft.run))
        case "ask":
            people.ask(draft, verdict_of(verdicts, GrantsVerdict))
        case "locks":
            _lock(draft, verdict_of(verdicts, LocksVerdict))
        case "finish":
            _finish_document(draft)
        case "search":
            draft.add(e.StateEntered(state="S2"))
            draft.dispatch_search()
        case "compose":
            candidates.compose(draft, verdicts) if draft.run.candidates else _compose(draft, verdicts)
        case "pull":
            _pull(draft, verdict_of(verdicts, PullVerdict))
        case "queue":
            _enter_queue(draft, verdicts)
        case "land" | "merge":
            _land(draft, verdicts)


def _lock(draft: Draft, verdict: LocksVerdict | None) -> None:
    if verdict is not None and not verdict.passed and verdict.holders:
        if not draft.run.waiting_for_locks:
            draft.add(e.LocksWaiting(holders=verdict.holders))
        return
    if _passing(draft, () if verdict is None else (verdict,)) and verdict is not None:
        draft.add(e.LocksTaken(repository_url=draft.run.accepted.repository_key, paths=verdict.paths, token=verdict.token))
        if draft.run.state == "S1":
            draft.add(e.StateEntered(state="S2"))
            draft.dispatch_ready_workers()
        elif draft.back_off_is_over():
            draft.try_again()


def _compose(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    verdict = verdict_of(verdicts, CandidateVerdict)
    if _passing(draft, verdicts) and verdict is not None:
        draft.add(verdict.composed())
        if not draft.run.kind.reviews:
            draft.add(e.StateEntered(state="S4"))
            draft.dispatch_judge("testrunner", orders.testing)
            return
        draft.add(e.StateEntered(state="S3"))
        draft.dispatch_judge("reviewer", orders.reviewing)
        if draft.run.judges_together and draft.run.kind.tests and not draft.run.awaits_environment:
            draft.dispatch_judge("testrunner", orders.testing)


def _pull(draft: Draft, verdict: PullVerdict | None) -> None:
    """Record the pulled environments and order the tests in them; nothing while the puller works."""
    if verdict is not None and verdict.waits:
        return
    candidate, order = draft.run.candidate, draft.run.changed_order
    passing = _passing(draft, () if verdict is None else (verdict,))
    if passing and verdict is not None and candidate is not None and order is not None:
        draft.add(e.EnvironmentPulled(tree=candidate.tree, order_sha256=order.sha256, environments=verdict.environments))
        draft.dispatch_judge("testrunner", orders.testing)


def _abort(draft: Draft, item: AbortReceived, verdicts: Sequence[Verdict]) -> None:
    """End the run, unless it is in a merge queue that has not let it go."""
    if draft.run.state == states.QUEUED and not _has_withdrawn(verdicts):
        return
    asked = item.request
    draft.add(e.AbortRequested(reason=asked.reason, requested_by=asked.requested_by, publisher=item.publisher))
    draft.end("ABORTED", "aborted", asked.reason)


def _has_withdrawn(verdicts: Sequence[Verdict]) -> bool:
    verdict = verdict_of(verdicts, WithdrawalVerdict)
    return verdict is not None and verdict.passed


def _enter_queue(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    """Park the run in the merge queue, without its path locks."""
    verdict = verdict_of(verdicts, QueueVerdict)
    if verdict is not None and verdict.held is not None:
        people.hold(draft, verdict.held, verdict.roster_sha256)
    if verdict is not None and verdict.report.code == APPROVAL_LAPSED:
        return  # the next step asks people again
    if _passing(draft, verdicts):
        if draft.run.locks is not None:
            draft.add(e.LocksReleased())
        draft.add(e.StateEntered(state=states.QUEUED))


def _land(draft: Draft, verdicts: Sequence[Verdict]) -> None:
    verdict = verdict_of(verdicts, LandingVerdict)
    if verdict is not None and verdict.waits:
        return
    contract = draft.run.contract
    lapsed = verdict is not None and verdict.held is not None and bool(verdict.held.reopened)
    if verdict is not None and verdict.held is not None and not (lapsed and verdict.passed):
        people.hold(draft, verdict.held, verdict.roster_sha256)
    if verdict is not None and verdict.report.code == APPROVAL_LAPSED:
        return  # the next step asks people again
    if _passing(draft, verdicts) and verdict is not None and contract is not None:
        mode = contract.repository.landing if contract.repository else "none"
        landed = e.Landed(
            mode=mode,
            commit=verdict.commit,
            tree=verdict.tree,
            ref=verdict.ref,
            previous=verdict.previous,
            # The change landed before the roster changed, but the ledger had no record of it.
            found=verdict.found or lapsed,
            receipt=verdict.receipt,
        )
        draft.add(landed)
        draft.add(e.StateEntered(state="S6"))
        draft.finish("SUCCESS", *endings.landed_ending(verdict.ref))


def _passing(
    draft: Draft, verdicts: Sequence[Verdict], *, evidence: ReviewReport | TestReport | None = None
) -> GateReport | None:
    """Record every verdict. On a failure, start a fix round or end the run.

    Returns:
        The last report when all verdicts passed, else None.
    """
    for verdict in verdicts:
        if draft.judged(verdict.report):
            continue
        if evidence is not None and verdict.report.code in CURABLE and draft.may_fix():
            draft.fix(verdict.report.code, [(task, evidence) for task in draft.run.workers()])
        elif repairable(draft.run, verdict.report) and draft.may_fix():
            draft.fix(verdict.report.code, [(task, verdict.report) for task in draft.run.workers()])
        elif evidence is not None and draft.escalates(verdict.report):
            if not people.hand_over(draft):
                draft.escalate(verdict.report)
        else:
            draft.refuse(verdict.report)
        return None
    if not verdicts:
        draft.end("FAILED", "gate_not_evaluated", "a gate that had to judge this gave no answer")
        return None
    return verdicts[-1].report
