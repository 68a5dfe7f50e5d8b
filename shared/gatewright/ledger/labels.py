"""The labels of an event: its level, the task and the attempt it is about, and whose word it is. Pure.

Labels follow from the run and the payload. The decider writes them by this function, and ``verify`` compares them with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gatewright.contracts import ApprovalDecision, codec
from gatewright.ledger import events as e
from gatewright.ledger.run import Run


@dataclass(frozen=True, slots=True)
class EventLabels:
    """What an event's record says beside its payload. ``role`` is None where the gatekeeper acts on its own state."""

    level: e.Level = "INFO"
    task_id: str | None = None
    attempt: int | None = None
    role: str | None = None


#: States that a run enters because something went wrong, or that make it wait for a person.
_LEVELS: dict[e.State, e.Level] = {"FAILED": "ERROR", "ABORTED": "WARN", "S5": "WARN", e.PARKED: "WARN"}


def labels_of(run: Run | None, payload: e.Payload, task_id: str | None = None) -> EventLabels:
    """The labels of ``payload`` that happens to ``run``; None: it is the run's first event.

    ``task_id`` is the task of an ignored answer, which its payload does not name.
    Raises MalformedError for a decision that cannot be decoded.
    """
    if run is None:
        return EventLabels()
    about = task_id if isinstance(payload, e.AnswerIgnored) else _task_of(payload)
    return EventLabels(_level(run, payload), about, run.attempt, _role(run, payload, about))


def _task_of(payload: e.Payload) -> str | None:
    match payload:
        case e.GateJudged(report=report) | e.ReviewReceived(report=report) | e.TestsReceived(report=report):
            return report.task_id
        case e.TaskDispatched(task_id=task_id) | e.UsageReported(task_id=task_id) | e.TaskInterrupted(task_id=task_id):
            return task_id
        case e.BudgetExceeded(task_id=task_id):
            return task_id
        case e.PlanAccepted(plan=plan):
            return plan.task_id
        case e.TaskFinished(result=result):
            return result.task_id
        case e.TaskFailed(error=error):
            return error.task_id
        case e.SummonsAsked(task=task):
            return task.task_id
        case e.SummonsAnswered(answer=answer):
            return answer.task_id
        case e.ApprovalRequested(request=request) if request.question is not None:
            return request.question.task_id
        case _:
            return None


def _role(run: Run, payload: e.Payload, task_id: str | None) -> str | None:
    match payload:
        case e.ContractCompiled():
            return "pm"
        case e.PlanAccepted():
            return "techlead"
        case e.TaskFinished():
            return "worker"
        case e.ReviewReceived():
            return "reviewer"
        case e.TestsReceived():
            return "testrunner"
        case e.TaskFailed() | e.UsageReported() | e.TaskInterrupted() | e.AnswerIgnored():
            task = run.tasks.get(task_id or "")
            return task.role if task is not None else None
        case e.SummonsAnswered(answer=answer):
            return answer.role
        case (
            e.StateEntered()
            | e.LocksWaiting()
            | e.LocksTaken()
            | e.CandidateComposed()
            | e.FixOrdered()
            | e.Landed()
            | e.AbortRequested()
            | e.RunFinished()
            | e.BundleSealed()
        ):
            return None
        case _:
            return "gatekeeper"


def _level(run: Run, payload: e.Payload) -> e.Level:
    match payload:
        case e.GateJudged(report=report):
            return "INFO" if report.verdict == "PASS" else "ERROR"
        case e.TaskFinished(accepted=accepted):
            return "INFO" if accepted else "ERROR"
        case e.RunFinished(status=status):
            return "INFO" if status == "SUCCESS" else "ERROR"
        case e.StateEntered(state=state):
            return _LEVELS.get(state, "INFO")
        case e.TaskFailed() | e.BudgetExceeded():
            return "ERROR"
        case e.TaskInterrupted() | e.FixOrdered() | e.AbortRequested() | e.LocksWaiting() | e.AnswerIgnored():
            return "WARN"
        case e.SummonsAnswered(answer=answer):
            return "INFO" if answer.status == "ANSWERED" else "WARN"
        case e.ApprovalRequested(request=request):
            # A rule that approves by itself waits for no person; what is asked beside the run has no such rule.
            rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
            alone = rule is not None and rule.autopilot and request.stage != "beside" and request.question is None
            return "INFO" if alone else "WARN"
        case e.ApprovalExpired(request_id=request_id):
            asked = run.approvals.get(request_id)
            return "INFO" if asked is not None and asked.request.stage == "beside" else "WARN"
        case e.RosterHeld(lapsed=lapsed, reopened=reopened):
            return "WARN" if lapsed or reopened else "INFO"
        case e.ApprovalDecided():
            return "WARN" if _objects(payload) else "INFO"
        case _:
            return "INFO"


def _objects(payload: e.ApprovalDecided) -> bool:
    """Whether a decision is a no, or a red vote."""
    if payload.verdict != "vote":
        return payload.verdict == "reject"
    vote = codec.decode(payload.signed.document.encode(), ApprovalDecision).vote
    return vote is not None and vote.colour == "red"
