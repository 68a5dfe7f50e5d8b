"""Permission requests of agents: which are forwarded to people, and what an agent is answered. Pure.

The run continues beside such a request while the agent's turn waits. An approval covers this command, once. A rejection, a
timeout and the end of the task refuse it and change nothing else. The decider applies these rules, and ``verify`` checks each
request.
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
#: Maximum number of forwarded requests per task and per run.
MOST_OF_TASK = 20
MOST_OF_RUN = 100
#: Maximum characters of an agent's text. Longer requests are refused, since no person can approve unreadable text.
MOST_WORDS = 2_000
_STANDINGS: Final[dict[LeaveStatus, LeaveStanding]] = {"approved": "allowed", "pending": "pending"}


def asking_rule(run: Run) -> ApprovalRule | None:
    """Return the rule for permission requests of the run's agents; None without one."""
    return next((each for each in run.accepted.approval_rules if each.reason == REASON), None)


def question_request(run: Run, question: AgentQuestion, now: datetime) -> ApprovalRequest:
    """Return the request to people for ``question``.

    1. A rule applies.
    2. The question is about a worker's task in progress, of this round, whose contract allows permission requests.
    3. Its text is short enough to be shown in full.
    4. The maximum number is not reached.

    Raises:
        DeniedError: has the code of the broken rule.
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
    # Whole seconds, as in the ledger.
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
    """Return the recorded request for ``question``; None for a new question.

    Raises:
        DeniedError: another question has its id.
    """
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
    """Return the current answer for the agent. An approval is valid only while the task is in progress."""
    request, question = asked.request, asked.request.question
    if question is None:
        raise DeniedError(f"{request.request_id} is no question of an agent", code="approval_unknown")
    status: LeaveStatus = "withdrawn"
    if _in_hand(run, question) and not _taken_over(run, question):
        match asked.status:
            case "approved" | "rejected" | "expired" as answer:
                status = answer
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
    """Return ``text`` exactly, on one line: unprintable characters and backslashes are escaped."""
    return "".join(each if each.isprintable() and each != "\\" else _escape_character(each) for each in text)


def _escape_character(character: str) -> str:
    return "\\\\" if character == "\\" else f"\\u{{{ord(character):x}}}"


def _in_hand(run: Run, question: AgentQuestion) -> RunTask | None:
    task = run.tasks.get(question.task_id)
    fits = task is not None and (task.role, task.status, task.attempt) == ("worker", "RUNNING", run.attempt)
    return task if fits and question.run_id == run.run_id and not run.ended else None


def _taken_over(run: Run, question: AgentQuestion) -> bool:
    """Return whether another process that received the task later has asked."""
    known = (asked.request.question for asked in run.approvals.values())
    return any(each.task_id == question.task_id and each.delivery > question.delivery for each in known if each is not None)


def _task_in_hand(run: Run, question: AgentQuestion) -> RunTask:
    task = _in_hand(run, question)
    if task is None:
        raise DeniedError(f"{question.task_id[:200]!r} is not a task in progress", code="agent_question_out_of_turn")
    if task.contract is None or not task.contract.interactive or task.contract.tool_permissions.shell in {"deny", "never"}:
        raise DeniedError("the contract lets no agent ask", code="agent_question_out_of_turn")
    return task
