"""18.

Questions to roles beside the run were within the bounds, about its state at that time; each answer is to its question.
"""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.people.summons import MOST_SUMMONSES, SummonsTask
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.rules.critic import awaits_critic, critic_id, critic_limits, is_critic_due, recommendation_of
from gatewright.rules.model_tester import awaits_tester, is_tester_due, tester_limits
from gatewright.rules.summons import FILE, answer_to, critic_order, number_asked, tester_order
from gatewright.run import events as e
from gatewright.run.state import Run

SUMMONS = "summons_contradicts"


def check_summons(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check summonses.

    1. A policy allows questions, and their number is within the maximum.
    2. A question is about this run, and shows the change of that time.
    3. An answer matches its question, and its fields match its outcome.
    4. The model tester and critic were asked where rules require it, about that moment, and the run waited for the answers.
    5. A change that the critic blocked went no further.
    """
    for number, moment in enumerate(replayed.moments):
        match moment.payload:
            case e.SummonsAsked(task=task):
                check = _check_question if task.advice is None else _check_model
                for words in check(moment.before, task):
                    yield moment.contradiction(SUMMONS, layout.summons_question(task.task_id), layout.EVENTS, words)
            case e.SummonsAnswered():
                yield from _check_answer(moment, moment.payload)
                yield from _check_block(moment, moment.payload, replayed.moments[number + 1 :])
            case e.Landed() | e.StateEntered(state="S6" | "QUEUED" | "AWAITING_APPROVAL") if _awaits_model(moment.before):
                words = "it continued without the answer of a model that a rule asks first"
                yield moment.contradiction(SUMMONS, layout.EVENTS, layout.EVENTS, words)  # 4
            case _:
                pass


def _check_question(run: Run, task: SummonsTask) -> Iterator[str]:
    if FILE not in run.accepted.policies:  # 1
        yield f"a role was asked, and the policy had no {FILE}"
    if number_asked(run) >= MOST_SUMMONSES:
        yield f"a role was asked beyond {MOST_SUMMONSES} times"
    if task.run_id != run.run_id or not task.task_id.startswith(f"{run.run_id}.summons."):  # 2
        yield "the question is about another run"
    shown = {artifact.uri for artifact in task.evidence}
    if shown != ({run.candidate.patch} if run.candidate is not None else set()):
        yield "the role was shown another change than the candidate of that moment"


def _awaits_model(run: Run) -> bool:
    return is_tester_due(run) or awaits_tester(run) or is_critic_due(run) or awaits_critic(run)


def _check_model(run: Run, task: SummonsTask) -> Iterator[str]:
    """Check a question of the gatekeeper itself: the tester comes before the critic."""
    tester, critic = tester_limits(run), critic_limits(run)
    wanted = None  # 4
    if is_tester_due(run) and tester is not None:
        wanted = tester_order(run, tester)
    elif is_critic_due(run) and critic is not None and not awaits_tester(run):
        wanted = critic_order(run, critic)
    if task != wanted:
        yield "a model was asked what no rule asks at that moment"


def _check_block(moment: Moment, event: e.SummonsAnswered, later: tuple[Moment, ...]) -> Iterator[Contradiction]:
    blocks = event.answer.task_id == critic_id(moment.before) and recommendation_of(event.answer) == "block"
    ends = later and isinstance(later[0].payload, e.StateEntered) and later[0].payload.state == "FAILED"
    if blocks and not ends:  # 5
        words = "it continued with a change that the model critic blocked"
        yield moment.contradiction(SUMMONS, layout.summons_answer(event.answer.task_id), layout.EVENTS, words)


def _check_answer(moment: Moment, event: e.SummonsAnswered) -> Iterator[Contradiction]:
    asked = moment.before.summonses.get(event.answer.task_id)
    path = layout.summons_answer(event.answer.task_id)
    if asked is not None and (moment.when is None or answer_to(asked, event.answer, moment.when) != event.answer):  # 3
        yield moment.contradiction(SUMMONS, path, layout.EVENTS, "the answer is not one to its question")
