"""What agents ask leave for, as requests to people: which are asked, and what an agent is answered. Pure.

The run goes on beside such a request, and the agent's turn waits. A yes is for this one command, once; a no, silence and the
end of the task refuse it, and change nothing else. The decider asks by this, and ``verify`` holds each request against it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.contracts import AgentLeave, AgentQuestion, ApprovalRequest
from gatewright.contracts.activity import LeaveStanding, LeaveStatus
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.errors import DeniedError
from gatewright.rules.approvals import MatchedRule, is_over, make_request
from gatewright.run.state import AskedApproval, Run, RunTask

REASON = "agent_question"
#: Questions of one task, and of one run, that people are asked.
MOST_OF_TASK = 20
MOST_OF_RUN = 100
#: Characters of an agent's words as they are shown; longer ones are not asked about, as no person allows what they cannot read.
MOST_WORDS = 2_000
_STANDINGS: Final[dict[LeaveStatus, LeaveStanding]] = {"approved": "allowed", "pending": "pending"}


def asking_rule(run: Run) -> ApprovalRule | None:
    """The rule whose people are asked what agents of the run ask leave for; None: no rule does."""
    return next((each for each in run.accepted.approval_rules if each.reason == REASON), None)


def question_request(run: Run, question: AgentQuestion, now: datetime) -> ApprovalRequest:
    """The request that is made of ``question``.

    1. a rule asks  2. the question is about a worker's task of the run that is in hand, of this round, whose contract lets an
    agent ask  3. its words are short enough to be shown whole  4. fewer were asked before than may be.
    Raises DeniedError with the code of the reason.
    """
    rule = asking_rule(run)
    if rule is None:  # 1
        raise DeniedError("no rule asks people what agents ask leave for", code="agent_question_unasked")
    task = _task_in_hand(run, question)  # 2
    words = inert(question.subject)
    if not words or len(words) > MOST_WORDS:  # 3
        raise DeniedError(f"a command of {len(words)} characters; {MOST_WORDS} are shown", code="agent_question_unreadable")
    if _taken_over(run, question):
        raise DeniedError("a later delivery of its task has asked", code="agent_question_out_of_turn")
    before = [asked.request for asked in run.approvals.values() if asked.request.question is not None]
    of_task = [each for each in before if each.question is not None and each.question.task_id == task.task_id]
    if len(of_task) >= MOST_OF_TASK or len(before) >= MOST_OF_RUN:  # 4
        words = f"{len(of_task)} questions of {task.task_id[:200]} and {len(before)} of the run were asked"
        raise DeniedError(words, code="too_many_agent_questions")
    why = f"{inert(question.agent)} asks in {inert(task.task_id)[:200]} whether it may run: {words}"
    request = make_request(run, MatchedRule(rule, why), len(run.approvals) + 1, now)
    # Whole seconds: of the moment itself the ledger has no finer part either.
    until = now + timedelta(seconds=min(rule.wait, max(1, int(question.seconds))))
    return replace(
        request,
        on_yes="the agent may run this command, once, in its box",
        on_no="the agent is refused this command, and the run goes on",
        on_silence="the agent is refused this command, and the run goes on",
        expires_at=timestamp(until),
        question=question,
    )


def known_question(run: Run, question: AgentQuestion) -> AskedApproval | None:
    """What has become of ``question``; None: it was not asked. Raises DeniedError where another has its id."""
    same = (
        asked
        for asked in run.approvals.values()
        if asked.request.question is not None and asked.request.question.question_id == question.question_id
    )
    asked = next(same, None)
    if asked is not None and asked.request.question != question:
        raise DeniedError("another question was asked by this id", code="agent_question_differs")
    return asked


def leave_of(run: Run, asked: AskedApproval, now: datetime) -> AgentLeave:
    """The answer that the agent has now. A yes counts while the task is in hand alone."""
    request, question = asked.request, asked.request.question
    if question is None:
        raise DeniedError(f"{request.request_id} is no question of an agent", code="approval_unknown")
    status: LeaveStatus = "withdrawn"
    if _in_hand(run, question) and not _taken_over(run, question):
        match asked.status:
            case "approved" | "rejected" | "expired" as said:
                status = said
            case "pending":
                status = "expired" if is_over(request, now) else "pending"
    return AgentLeave(
        question_id=question.question_id,
        run_id=question.run_id,
        task_id=question.task_id,
        standing=_STANDINGS.get(status, "refused"),
        status=status,
        request_id=request.request_id,
        person=asked.person if asked.status in {"approved", "rejected"} else "",
    )


def inert(text: str) -> str:
    """``text`` on one line, exactly: what is not printable, and the backslash, is written as its escape."""
    return "".join(each if each.isprintable() and each != "\\" else _escape_character(each) for each in text)


def _escape_character(character: str) -> str:
    return "\\\\" if character == "\\" else f"\\u{{{ord(character):x}}}"


def _in_hand(run: Run, question: AgentQuestion) -> RunTask | None:
    task = run.tasks.get(question.task_id)
    fits = task is not None and (task.role, task.status, task.attempt) == ("worker", "RUNNING", run.attempt)
    return task if fits and question.run_id == run.run_id and not run.ended else None


def _taken_over(run: Run, question: AgentQuestion) -> bool:
    """Whether another process that was given the task later has asked."""
    known = (asked.request.question for asked in run.approvals.values())
    return any(each.task_id == question.task_id and each.delivery > question.delivery for each in known if each is not None)


def _task_in_hand(run: Run, question: AgentQuestion) -> RunTask:
    task = _in_hand(run, question)
    if task is None:
        raise DeniedError(f"{question.task_id[:200]!r} is no task that is in hand", code="agent_question_out_of_turn")
    if task.contract is None or not task.contract.interactive or task.contract.tool_permissions.shell in {"deny", "never"}:
        raise DeniedError("the contract lets no agent ask", code="agent_question_out_of_turn")
    return task
