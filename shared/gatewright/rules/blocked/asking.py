"""Requests to people about the open questions in tasks' answers, one after another; and which questions are legal. Pure.

The run continues beside such a request, since the task already used its best guess. An approval is stored, a rejection ends the
run, and a timeout changes nothing. The decider applies these rules, and ``verify`` checks each request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from gatewright.contracts import ApprovalRequest, Blocked
from gatewright.contracts.consultation import MOST_BLOCKED, Consultation
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.task_contract import MOST_ANSWER_WORDS, MOST_ANSWERS, OperatorWords, PersonsAnswer, TaskQuestions
from gatewright.errors import Fault, MalformedError
from gatewright.rules.approvals import MatchedRule, make_request, pending
from gatewright.run.state import AskedApproval, Run

# Legal questions, as opposed to preferences that an agent decides by itself (OmegaOS, prompt protocols). Pure.
# A question is legal when only the person asked can answer it, work continues meanwhile, and work continues without an answer.
ILLEGAL = "blocked_illegal"
#: The file of questions in the root of the repository; the name is reserved unless the repository has its own such file.
BLOCKED_NAME = ".gatewright-blocked.json"
#: Preferences phrased as questions: the agent decides these and continues.
_PREFERENCES = re.compile(  # noqa: TID251 - linear: each try ends where the next one begins
    r"which (path|option|approach|one) (should|would|do)|should i (proceed|continue|go on)|await(ing)? (confirmation|approval)"
    r"|confirm before|like to confirm|would you prefer|validate the approach|may i (proceed|continue)",
    re.IGNORECASE,
)


def check(blocked: Blocked) -> tuple[Fault, ...]:
    """Return why a document is no legal question, by its fields; empty when it is one."""
    faults: list[Fault] = []
    if not blocked.can_resume_without_answer:
        faults.append(Fault("/can_resume_without_answer", ILLEGAL, "an agent that is blocked must go on without an answer"))
    if not blocked.best_guess.strip():
        faults.append(Fault("/best_guess", ILLEGAL, "the best guess is empty: state what you would do"))
    if not blocked.fallback_action.strip():
        faults.append(Fault("/fallback_action", ILLEGAL, "nothing is being done meanwhile"))
    if _PREFERENCES.search(blocked.question):
        faults.append(Fault("/question", ILLEGAL, "a preference and no block: decide and go on"))
    return tuple(faults)


def refuse_illegal(blocked: Blocked) -> None:
    """Refuse an illegal question.

    Raises:
        MalformedError: has every fault that ``check`` finds (``blocked_illegal``).
    """
    faults = check(blocked)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=ILLEGAL)


REASON = "blocked"
#: Maximum characters of each text that a person is shown.
_MOST_WORDS = 600


def next_request(run: Run, now: datetime) -> ApprovalRequest | None:
    """Return the next request about open questions of tasks; None when there is none or no rule applies.

    The first rule with the reason ``blocked`` applies to each legal question in an accepted answer, in the order of the tasks,
    up to a maximum per run. Each question is asked once per run, even if a later round repeats it.
    """
    rule = next((each for each in run.accepted.approval_rules if each.reason == REASON), None)
    if rule is None or run.contract is None or run.ended:
        return None
    known = [asked.request.blocked.question for asked in run.approvals.values() if asked.request.blocked is not None]
    if len(known) >= MOST_BLOCKED:
        return None
    block = next((each for each in _legal_blocks(run) if each.question not in known), None)
    return _request(run, rule, block, now) if block is not None else None


def may_ask(run: Run) -> bool:
    """Return whether a rule of the run forwards open questions of tasks to people."""
    return any(rule.reason == REASON for rule in run.accepted.approval_rules)


def task_questions(run: Run, role: str) -> TaskQuestions | None:
    """Return the instructions on open questions for a task; None when no rule applies.

    A worker also receives answers of people to earlier questions of the run. Texts are truncated, and only the newest answers
    are included.
    """
    if not may_ask(run) or role == "testrunner":
        return None
    if role != "worker":
        return TaskQuestions()
    answers = [
        PersonsAnswer(
            question=asked.request.blocked.question[:MOST_ANSWER_WORDS],
            best_guess=asked.request.blocked.best_guess[:MOST_ANSWER_WORDS],
            person=each.person,
            words=each.words[:MOST_ANSWER_WORDS],
            stands=each.stands,
        )
        for asked in run.approvals.values()
        if asked.request.blocked is not None
        for each in asked.answers
    ]
    return TaskQuestions(answers=tuple(answers[-MOST_ANSWERS:]))


def operator_words(run: Run, role: str) -> tuple[OperatorWords, ...]:
    """Return the comments of the people who granted a round, for its makers: truncated, and only the newest."""
    if role != "worker":
        return ()
    comments = [
        OperatorWords(person=each.person, words=each.words[:MOST_ANSWER_WORDS], grants=each.stands)
        for asked in run.approvals.values()
        if asked.request.stage == "round"
        for each in asked.answers
        if each.words.strip()
    ]
    return tuple(comments[-MOST_ANSWERS:])


def beside(run: Run) -> tuple[AskedApproval, ...]:
    """Return the open requests beside the run, oldest first."""
    return tuple(asked for asked in pending(run) if asked.request.stage == "beside")


def _legal_blocks(run: Run) -> Iterator[Blocked]:
    """Yield the legal questions of the run as they are shown: about this task, on one line, and truncated."""
    for task_id, each in _reported_blocks(run):
        if not check(each):
            shown = replace(
                each,
                session=task_id,
                question=_plain_text(each.question),
                best_guess=_plain_text(each.best_guess),
                fallback_action=_plain_text(each.fallback_action),
            )
            yield shown


def _reported_blocks(run: Run) -> Iterator[tuple[str, Blocked]]:
    """Yield the open questions of each task. A contract from outside has none, because no pm produced it."""
    pm = next((task.task_id for task in run.tasks.values() if task.role == "pm"), None)
    asked: list[tuple[str | None, Consultation | None]] = [(pm, run.contract.consultation if run.contract else None)]
    asked += [(run.plan.task_id, run.plan.consultation)] if run.plan is not None else []
    for task_id, consultation in asked:
        if task_id is not None and consultation is not None:
            yield from ((task_id, each) for each in consultation.blocked)
    for task in run.tasks.values():
        if task.result is not None and task.status == "SUCCESS":
            yield from ((task.task_id, each) for each in task.result.blocked)
    for review in (run.review, *(state.review for state in run.candidates.values())):
        if review is not None and review.consultation is not None:
            yield from ((review.task_id or "reviewer", each) for each in review.consultation.blocked)


def _request(run: Run, rule: ApprovalRule, block: Blocked, now: datetime) -> ApprovalRequest:
    need = f" (needs a person for: {block.human_required_for})" if block.human_required_for is not None else ""
    why = f"{block.session[:200]} asks{need}: {block.question} Its guess: {block.best_guess}"
    request = make_request(run, MatchedRule(rule, why), len(run.approvals) + 1, now)
    return replace(
        request,
        on_yes="the best guess stands, and the run goes on",
        on_silence=f"the run goes on as it does now: {block.fallback_action}",
        blocked=block,
    )


def _plain_text(text: str) -> str:
    """Return text on one line, truncated, without characters that could mislead a terminal or a reader."""
    line = " ".join(text[: 4 * _MOST_WORDS].split())
    shown = "".join(character if character.isprintable() else "?" for character in line)
    return shown if len(shown) <= _MOST_WORDS else f"{shown[:_MOST_WORDS]} (cut)"
