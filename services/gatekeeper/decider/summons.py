"""Questions to roles beside a run: what asks them, and what is recorded of their answers. Neither moves the run."""

from __future__ import annotations

from gatewright.clock import timestamp
from gatewright.contracts import Error, SummonsAnswer, SummonsTask, TaskContract
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.people.summons import MOST_WORDS
from gatewright.errors import DeniedError
from gatewright.rules.summons import UNFIT, answer_to, summons_orders
from gatewright.run import events as e
from gatewright.run.candidates import reason_of
from gatewright.run.state import AskedSummons, Run
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.inputs import RoleDocument, RoleReplied, SummonsReceived


def record_questions(draft: Draft, item: SummonsReceived) -> None:
    """Ask all questions of a request, or none: who sent it finds out why by the same rules."""
    try:
        orders = summons_orders(draft.run, item.request, item.bounds, item.publisher)
    except DeniedError:
        return
    for order in orders:
        draft.summon(order)


def question_of(run: Run, item: RoleReplied) -> AskedSummons | None:
    """The question that an answer names; None for an answer to a task of the run. A contract names no task of it."""
    document = item.document
    return None if isinstance(document, TaskContract) else run.summonses.get(document.task_id or "")


def record_answer(draft: Draft, item: RoleReplied, question: AskedSummons) -> None:
    """Record what became of a question, once; of another role than the one that was asked, nothing."""
    task, now = question.task, timestamp(draft.now)
    if question.answer is not None or item.role != task.item.role:
        return
    answer = answer_to(question, _answer_of(item.document, task, now), draft.now)
    draft.add(e.SummonsAnswered(answer=answer))


def _answer_of(document: RoleDocument, task: SummonsTask, now: str) -> SummonsAnswer:
    """What a role said, as an answer: an error is one without words, and another document than was asked for is none."""
    match document:
        case SummonsAnswer():
            return document
        case Error():
            code = reason_of(document.code, "task_failed")
            return _not_answered(task, now, code, document.message, document.consultation)
        case _:
            return _not_answered(task, now, UNFIT, f"the {task.item.role} answered with another document")


def _not_answered(
    task: SummonsTask, now: str, code: str, words: str, consultation: Consultation | None = None
) -> SummonsAnswer:
    return SummonsAnswer(
        run_id=task.run_id,
        task_id=task.task_id,
        role=task.item.role,
        status="NOT_ANSWERED",
        code=code,
        answered_at=now,
        message=words[:MOST_WORDS],
        consultation=consultation,
    )
