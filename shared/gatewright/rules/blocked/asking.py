"""What people are asked of the blocks that tasks brought with their answers: the requests, one after another. Pure.

The run goes on beside such a request: the task has gone on by its best guess already. A yes is kept; a no ends the run; silence
changes nothing. The decider asks by this, and ``verify`` holds each request against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec.structs import replace

from gatewright.contracts import ApprovalRequest, Blocked
from gatewright.contracts.consultation import MOST_BLOCKED, Consultation
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.task_contract import MOST_ANSWER_WORDS, MOST_ANSWERS, OperatorWords, PersonsAnswer, TaskQuestions
from gatewright.rules.approvals import MatchedRule, make_request, pending
from gatewright.rules.blocked.legal import check
from gatewright.run.state import AskedApproval, Run

REASON = "blocked"
#: Characters of each of its words that a person is shown.
_MOST_WORDS = 600


def next_request(run: Run, now: datetime) -> ApprovalRequest | None:
    """The next request that is to be made of what tasks could not tell; None where there is none, or no rule asks.

    Asked is the first rule of the reason ``blocked``, about each legal block of an answer that counts, in the order of the
    tasks, about so many of a run at most, and once in a run: a round that is left with the same question asks no more.
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
    """Whether a rule of the run asks people what its tasks cannot tell."""
    return any(rule.reason == REASON for rule in run.accepted.approval_rules)


def task_questions(run: Run, role: str) -> TaskQuestions | None:
    """What a task is told of asking: that it may, and a worker's what people said to what the run asked before; None where no
    rule asks. Words are cut, and of many answers the newest are told.
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
        for each in asked.said
    ]
    return TaskQuestions(answers=tuple(answers[-MOST_ANSWERS:]))


def operator_words(run: Run, role: str) -> tuple[OperatorWords, ...]:
    """What the makers of a round are told of the people who gave it: their words, cut; of many the newest."""
    if role != "worker":
        return ()
    said = [
        OperatorWords(person=each.person, words=each.words[:MOST_ANSWER_WORDS], grants=each.stands)
        for asked in run.approvals.values()
        if asked.request.stage == "round"
        for each in asked.said
        if each.words.strip()
    ]
    return tuple(said[-MOST_ANSWERS:])


def beside(run: Run) -> tuple[AskedApproval, ...]:
    """What waits for an answer while the run goes on, the oldest first."""
    return tuple(asked for asked in pending(run) if asked.request.stage == "beside")


def _legal_blocks(run: Run) -> Iterator[Blocked]:
    """The legal blocks of the run, as they are shown: of just that task, on one line, and not endless."""
    for task_id, each in _reported_blocks(run):
        if not check(each):
            shown = replace(
                each,
                session=task_id,
                question=_plain(each.question),
                best_guess=_plain(each.best_guess),
                fallback_action=_plain(each.fallback_action),
            )
            yield shown


def _reported_blocks(run: Run) -> Iterator[tuple[str, Blocked]]:
    """What each task could not tell. Of a contract that came from outside no pm of ours has said anything."""
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


def _plain(text: str) -> str:
    """On one line, without what a terminal or a reader could be misled by. Longer words are cut."""
    line = " ".join(text[: 4 * _MOST_WORDS].split())
    shown = "".join(character if character.isprintable() else "?" for character in line)
    return shown if len(shown) <= _MOST_WORDS else f"{shown[:_MOST_WORDS]} (cut)"
