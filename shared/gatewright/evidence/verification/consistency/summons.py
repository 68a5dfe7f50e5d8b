"""18.

Questions to roles beside the run were within the bounds, about its state at that time; each answer is to its question.
"""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.people.summons import MOST_SUMMONSES, SummonsTask
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.rules.summons import FILE, answer_to
from gatewright.run import events as e
from gatewright.run.state import Run

SUMMONS = "summons_contradicts"


def check_summons(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check summonses.

    1. A policy allows questions, and their number is within the maximum.
    2. A question is about this run, and shows the change of that time.
    3. An answer matches its question, and its fields match its outcome.
    """
    for moment in replayed.moments:
        match moment.payload:
            case e.SummonsAsked(task=task):
                for words in _check_question(moment.before, task):
                    yield moment.contradiction(SUMMONS, layout.summons_question(task.task_id), layout.EVENTS, words)
            case e.SummonsAnswered():
                yield from _check_answer(moment, moment.payload)
            case _:
                pass


def _check_question(run: Run, task: SummonsTask) -> Iterator[str]:
    if FILE not in run.accepted.policies:  # 1
        yield f"a role was asked, and the policy had no {FILE}"
    if len(run.summonses) >= MOST_SUMMONSES:
        yield f"a role was asked beyond {MOST_SUMMONSES} times"
    if task.run_id != run.run_id or not task.task_id.startswith(f"{run.run_id}.summons."):  # 2
        yield "the question is about another run"
    shown = {artifact.uri for artifact in task.evidence}
    if shown != ({run.candidate.patch} if run.candidate is not None else set()):
        yield "the role was shown another change than the candidate of that moment"


def _check_answer(moment: Moment, event: e.SummonsAnswered) -> Iterator[Contradiction]:
    asked = moment.before.summonses.get(event.answer.task_id)
    path = layout.summons_answer(event.answer.task_id)
    if asked is not None and (moment.when is None or answer_to(asked, event.answer, moment.when) != event.answer):  # 3
        yield moment.contradiction(SUMMONS, path, layout.EVENTS, "the answer is not one to its question")
