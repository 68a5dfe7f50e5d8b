"""18. Roles were asked beside the run within the bounds, about what it was then; no answer stands for anything else."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.people.summons import MOST_SUMMONSES, SummonsTask
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.rules.summons import FILE, answer_to
from gatewright.run import events as e
from gatewright.run.state import Run

SUMMONS = "summons_contradicts"


def check_summons(telling: Telling) -> Iterator[Contradiction]:
    """1. a policy allows questions, and there are no more than it ever may  2. a question is of this run, and shows the change
    of that moment  3. an answer is one to its question, and says of its outcome what goes with it."""
    for moment in telling.moments:
        match moment.payload:
            case e.SummonsAsked(task=task):
                for words in _check_question(moment.before, task):
                    yield moment.says(SUMMONS, layout.summons_question(task.task_id), layout.EVENTS, words)
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
        yield moment.says(SUMMONS, path, layout.EVENTS, "the answer is not one to its question")
