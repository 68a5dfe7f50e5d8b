"""8. Landing and end follow from the events: tree, ref and mode, status, code and definition of done."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.projection.completion import completion_report
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.models.transfers import NOT_APPROVED
from gatewright.rules import endings
from gatewright.rules.approvals import unapprovable
from gatewright.rules.critic import CRITIC_BLOCKED, critic_id, recommendation_of
from gatewright.rules.landing import landing_ref
from gatewright.rules.people.ownership import ORDERER_UNKNOWN
from gatewright.rules.reports import completion
from gatewright.rules.rounds import ESCALATED, candidates_escalate, escalates
from gatewright.rules.transfers import oversent
from gatewright.run import events as e
from gatewright.run import states
from gatewright.run.choice import NONE_PASSED

LANDED = "landed_contradicts"
END = "end_contradicts"
DONE = "completion_contradicts"
#: Reasons for an end that no other event records. The first exists only in bundles of earlier versions.
_OWN_CODES = frozenset({"evidence_unwritable", "output_schema_mismatch", "gate_not_evaluated"})
_STATUS: dict[str, states.Status] = {"S6": "SUCCESS", "FAILED": "FAILED", "ABORTED": "ABORTED"}


def check_ending(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check landing and end.

    1. The tested tree landed, where the contract requires.
    2. The end follows from the last state, for a recorded reason.
    3. A run that succeeded meets every rule of the definition of done.
    """
    ends = 0
    for number, moment in enumerate(replayed.moments):
        match moment.payload:
            case e.Landed():
                yield from _check_landing(moment, moment.payload)  # 1
            case e.RunFinished():
                ends += 1
                yield from _check_finish(moment, moment.payload, replayed.moments[:number])  # 2
            case _:
                pass
    if replayed.run.status != "ABORTED" and any(isinstance(each.payload, e.AbortRequested) for each in replayed.moments):
        words = f"the run ended as {replayed.run.status}, but it had been aborted"
        yield Contradiction(END, layout.EVENTS, layout.MANIFEST, words)
    if ends != 1:
        yield Contradiction(END, layout.EVENTS, layout.MANIFEST, f"a run ends once, and this one ended {ends} times")
    if replayed.run.status == "SUCCESS":
        yield from _check_done(replayed)  # 3
    elif replayed.run.landed is not None:
        words = f"the run ended as {replayed.run.status}, but it had landed"
        yield Contradiction(END, layout.MANIFEST, layout.GIT_LANDED, words)


def _check_landing(moment: Moment, event: e.Landed) -> Iterator[Contradiction]:
    run = moment.before
    tree = run.candidate.tree if run.candidate is not None else ""
    queued = event.mode == "queue"  # what it landed on, and its tree, follow from the receipt
    judged = tree if queued else event.tree
    if event.tree != tree and not queued:
        words = f"tree {event.tree} landed, and {tree or 'none'} was composed"
        yield moment.contradiction(LANDED, layout.GIT_LANDED, layout.GIT_CANDIDATE, words)
    for path, tested in ((layout.TEST_REPORT, run.tests), (layout.REVIEW_REPORT, run.review)):
        if tested is None or tested.tree != judged:
            words = f"tree {judged} landed, and the report is about {tested.tree if tested else 'none'}"
            yield moment.contradiction(LANDED, layout.GIT_LANDED, path, words)
    repository = run.contract.repository if run.contract is not None else None
    if repository is None:
        return
    ref = landing_ref(run.run_id, repository)
    baseline = run.accepted.baseline_commit if repository.landing == "target" else None
    previous = event.previous if queued else baseline
    for name, recorded, ordered in (
        ("mode", event.mode, repository.landing),
        ("ref", event.ref, ref),
        ("previous", event.previous, previous),
    ):
        if recorded != ordered:
            words = f"its {name} is {recorded or 'none'}, but the contract requires {ordered or 'none'}"
            yield moment.contradiction(LANDED, layout.GIT_LANDED, layout.CONTRACT, words)
    if bool(event.commit) != bool(ref):
        words = f"it has {'a' if event.commit else 'no'} commit, and its ref is {ref or 'none'}"
        yield moment.contradiction(LANDED, layout.GIT_LANDED, layout.CONTRACT, words)


def _check_finish(moment: Moment, event: e.RunFinished, earlier: tuple[Moment, ...]) -> Iterator[Contradiction]:
    status = _STATUS.get(moment.before.state)
    if event.status != status or (event.status == "SUCCESS") != (event.code == moment.before.kind.success):
        words = f"it ended as {event.status} ({event.code}) in state {moment.before.state}"
        yield moment.contradiction(END, layout.EVENTS, layout.MANIFEST, words)
    entered = [each for each in earlier if not isinstance(each.payload, e.StateEntered)]
    cause = entered[-1] if entered else None
    if status not in {None, "SUCCESS"} and (why := _why_unfounded(event, cause)):
        yield moment.contradiction(END, layout.EVENTS, layout.MANIFEST, why)
    with_document = event.status == "SUCCESS" and not moment.before.kind.lands
    expected = endings.document_ending(moment.before) if with_document else _expected_ending(event, cause)
    if expected is not None and (event.code, event.message) != expected:
        words = f"it ended because of {event.code} ({event.message}), and it should be {expected.code}"
        yield moment.contradiction(END, layout.EVENTS, layout.MANIFEST, f"{words} ({expected.message})")


def _expected_ending(event: e.RunFinished, cause: Moment | None) -> endings.Ending | None:
    """Return the ending that the decider records for this cause; None when no event contains its message."""
    if cause is None:
        return None
    if event.code == NOT_APPROVED and (words := oversent(cause.after)):
        return endings.Ending(NOT_APPROVED, words)
    if event.code == ORDERER_UNKNOWN:
        return endings.orderer_unknown(cause.after)
    return _ending_by_event(event, cause)


def _ending_by_event(event: e.RunFinished, cause: Moment) -> endings.Ending | None:
    if event.code in {NONE_PASSED, ESCALATED} and cause.after.candidates:
        return endings.none_passed(cause.after)
    match cause.payload:
        case e.Landed(ref=ref):
            return endings.landed_ending(ref)
        case e.GateJudged(report=report) if event.code == ESCALATED:
            return endings.escalated_ending(report, cause.before.attempt)
        case e.GateJudged(report=report) if report.verdict == "FAIL":
            return endings.refused_ending(report)
        case e.BudgetExceeded():
            return endings.budget_exceeded(cause.payload)
        case e.ApprovalExpired(request_id=request_id):
            return endings.approval_expired(cause.before.approvals[request_id])
        case e.SummonsAnswered(answer=answer) if event.code == CRITIC_BLOCKED:
            return endings.critic_blocked(answer)
        case e.TaskFailed(error=error):
            return endings.task_failed(error)
        case e.TaskFinished(result=result) if result.status != "SUCCESS":
            return endings.worker_failed(result)
        case _:
            return None


def _why_unfounded(event: e.RunFinished, cause: Moment | None) -> str:
    """Return why the last event is no reason for the end; empty when it is."""
    if event.code == NOT_APPROVED and cause is not None and oversent(cause.after):
        return "" if event.status == "FAILED" else f"it ended as {event.status}, and a task had sent more than may be"
    if event.code == ORDERER_UNKNOWN and cause is not None and unapprovable(cause.after):
        return "" if event.status == "FAILED" else f"it ended as {event.status}, and it was not known who ordered it"
    if cause is None:
        return f"it ended as {event.status} ({event.code}) without any event before"
    match cause.payload:
        case e.GateJudged(report=report) if report.verdict == "FAIL":
            handed_over = event.code == ESCALATED and _handed_over(cause, report.code)
            founded = event.code == report.code or handed_over or _all_out(event, cause)
        case e.BudgetExceeded():
            founded = event.code == "budget_exceeded"
        case e.ApprovalExpired():
            founded = event.status == "FAILED" and event.code == "approval_expired"
        case e.SummonsAnswered(answer=answer):
            blocks = recommendation_of(answer) == "block" and answer.task_id == critic_id(cause.before)
            founded = event.status == "FAILED" and event.code == CRITIC_BLOCKED and blocks
        case e.AbortRequested(reason=reason):
            founded = event.status == "ABORTED" and event.message == reason
        case e.TaskFailed() | e.TaskFinished() if event.code in {NONE_PASSED, ESCALATED}:
            founded = _all_out(event, cause)
        case e.TaskFailed():
            founded = event.status == "FAILED"
        case e.TaskFinished(result=result):
            founded = event.status == "FAILED" and (result.status != "SUCCESS" or event.code in _OWN_CODES)
        case _:
            founded = event.status == "FAILED" and event.code in _OWN_CODES
    return "" if founded else f"it ended as {event.status} ({event.code}), for a reason that no event records"


def _all_out(event: e.RunFinished, cause: Moment | None) -> bool:
    """Return whether the run had candidates, each was eliminated, and the code is the right one."""
    if cause is None or not cause.after.candidates or event.status != "FAILED":
        return False
    code = ESCALATED if candidates_escalate(cause.after) else NONE_PASSED
    return event.code == code and all(state.failure for state in cause.after.candidates.values())


def _handed_over(cause: Moment | None, code: str) -> bool:
    contract = cause.before.contract if cause is not None else None
    return cause is not None and contract is not None and escalates(contract, cause.before.attempt, code)


def _check_done(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check the definition of done, from the records and from the landing gate's report."""
    run, contract = replayed.run.seen_from(replayed.run.chosen), replayed.run.contract
    if contract is None:
        yield Contradiction(DONE, layout.MANIFEST, layout.CONTRACT, "it succeeded without a contract")
        return
    kind = run.kind
    broken = [*completion.open_shards(run)] if kind.lands else []
    broken += [*completion.missing_tests(run, contract)] if kind.tests else []
    broken += [*completion.open_violations(run)] if kind.reviews else []
    for each in broken:
        yield Contradiction(DONE, layout.MANIFEST, layout.COMPLETION_REPORT, f"it succeeded, and {each.detail}")
    report = completion_report(replayed.history)
    for check in report.checks:
        if check.verdict != "PASS":
            words = f"it succeeded, and {check.rule} is {check.verdict}: {check.detail}"
            yield Contradiction(DONE, layout.MANIFEST, layout.COMPLETION_REPORT, words)
