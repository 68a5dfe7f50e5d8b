"""Questions to roles beside a run: dispatches them and records the answers. They never change the state of the run."""

from __future__ import annotations

from gatewright.clock import timestamp
from gatewright.contracts import Error, SummonsAnswer, SummonsTask, TaskContract
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.people.summons import MOST_WORDS
from gatewright.errors import DeniedError
from gatewright.rules.critic import critic_id, critic_limits, recommendation_of
from gatewright.rules.endings import critic_blocked
from gatewright.rules.model_tester import is_tester_due, tester_limits
from gatewright.rules.summons import UNFIT, answer_to, critic_order, expired_advice, summons_orders, tester_order
from gatewright.run import events as e
from gatewright.run.candidates import reason_of
from gatewright.run.state import AskedSummons, Run
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.inputs import RoleDocument, RoleReplied, SummonsReceived


def record_questions(draft: Draft, item: SummonsReceived) -> None:
    """Dispatch all questions of a request, or none. The sender derives from the same rules why none was dispatched."""
    try:
        orders = summons_orders(draft.run, item.request, item.bounds, item.publisher)
    except DeniedError:
        return
    for order in orders:
        draft.summon(order)


def question_of(run: Run, item: RoleReplied) -> AskedSummons | None:
    """Return the question that an answer refers to; None for an answer to a task. A contract refers to no task."""
    document = item.document
    return None if isinstance(document, TaskContract) else run.summonses.get(document.task_id or "")


def record_answer(draft: Draft, item: RoleReplied, question: AskedSummons) -> None:
    """Record the outcome of a question, once. An answer of another role is ignored."""
    task, now = question.task, timestamp(draft.now)
    if question.answer is not None or item.role != task.item.role:
        return
    answer = answer_to(question, _answer_of(item.document, task, now), draft.now)
    draft.add(e.SummonsAnswered(answer=answer))
    if task.task_id == critic_id(draft.run) and recommendation_of(answer) == "block":
        draft.fail(critic_blocked(answer))


def ask_model(draft: Draft) -> None:
    """Ask the model tester for missed cases, or the model critic about doubts. The run waits for the answer, up to a limit."""
    run = draft.run
    if is_tester_due(run) and (limits := tester_limits(run)) is not None:
        draft.summon(tester_order(run, limits))
    elif (doubted := critic_limits(run)) is not None:
        draft.summon(critic_order(run, doubted))


def expire_advice(draft: Draft) -> None:
    """Record that no role answered a question of the gatekeeper in time. The run continues without the answer."""
    asked = expired_advice(draft.run, draft.now)
    if asked is not None:
        words = f"no answer within {asked.task.timeout_sec:g} seconds"
        draft.add(e.SummonsAnswered(answer=_not_answered(asked.task, timestamp(draft.now), "task_timeout", words)))


def _answer_of(document: RoleDocument, task: SummonsTask, now: str) -> SummonsAnswer:
    """Convert a role's document to an answer. An error gives an answer without text; an unexpected document is an error."""
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
