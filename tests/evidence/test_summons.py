"""Questions to roles in a bundle, also against one who has the gatekeeper's key: bounds, the change then, who answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import SummonsAnswer, SummonsRequest, SummonsTask
from gatewright.contracts.people.summons import SummonsItem
from gatewright.contracts.vocabulary import Artifact
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.rules.summons import FILE, SummonsBounds, summons_orders
from gatewright.run import events as e
from tests.evidence.approved_runs import Forgery, as_it_is
from tests.evidence.contradictions import label, replay_history
from tests.evidence.recorded_runs import STAMP, RecordedRun, under_policies
from tests.evidence.routed_runs import RoutedRun

BOUNDS = SummonsBounds(9, ("reviewer",), 60.0)


def make_summoned(forgery: Forgery = as_it_is, *, questions: int = 2) -> RoutedRun:
    """A run of which the reviewer was asked; it has answered the first question."""
    run = RoutedRun(rules=None)
    run.forgery = with_policy
    run.up_to_the_tests()
    orders: list[SummonsTask] = []
    for first in range(0, questions, 8):
        items = tuple(SummonsItem(role="reviewer", question=f"Question {n}?") for n in range(first, min(first + 8, questions)))
        orders += summons_orders(run.run, SummonsRequest(run_id=run.run_id, questions=items), BOUNDS)
    run.forgery = forgery
    run.step(*(e.LabelledEvent(e.SummonsAsked(task=order)) for order in orders))
    said = SummonsAnswer(
        run_id=run.run_id, task_id=orders[0].task_id, role="reviewer", status="ANSWERED", code="ok", answered_at=STAMP,
        answer="It is.", confidence="low",
    )  # fmt: skip
    run.step(e.LabelledEvent(e.SummonsAnswered(answer=said)))
    run.finish()
    return run


def with_policy(payload: e.RunEvent) -> e.RunEvent:
    if isinstance(payload, e.RunAccepted):
        return under_policies(payload, payload.policies | {FILE: "b" * 64})
    return payload


async def sealed(run: RecordedRun, folder: Path, signer: Signer) -> Path:
    return Path((await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


async def codes(run: RecordedRun, folder: Path, signer: Signer, key: PrivateKey) -> set[str]:
    return {each.code for each in verify(await sealed(run, folder, signer), [key.public]).findings}


async def test_questions_and_answers_are_in_the_bundle_and_verify(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    run = make_summoned(questions=8)
    bundle = await sealed(run, tmp_path, signer)
    assert verify(bundle, [private_key.public]).findings == ()
    task_ids = tuple(run.run.summonses)
    assert all((bundle / layout.summons_question(task_id)).is_file() for task_id in task_ids)
    assert [(bundle / layout.summons_answer(task_id)).is_file() for task_id in task_ids] == [True] + [False] * 7


def asked(**changes: object) -> Forgery:
    return lambda payload: (
        replace(payload, task=replace(payload.task, **changes)) if isinstance(payload, e.SummonsAsked) else payload
    )


def answered(**changes: object) -> Forgery:
    return lambda payload: (
        replace(payload, answer=replace(payload.answer, **changes)) if isinstance(payload, e.SummonsAnswered) else payload
    )


OTHER = Artifact(name="candidate.diff", uri="artifact:sha256:" + "1" * 64, sha256="1" * 64)


@pytest.mark.parametrize(
    "forgery",
    [
        asked(run_id="run-of-another"),
        asked(evidence=()),
        asked(evidence=(OTHER,)),
        answered(answer=""),
        answered(code="task_failed"),
        answered(status="NOT_ANSWERED", code="task_failed"),
        answered(role="pm"),
        answered(run_id="run-of-another"),
    ],
    ids=["run", "no-change", "other-change", "no-words", "code", "words-of-none", "role", "answer-of-other-run"],
)
async def test_a_forged_question_or_answer_is_found(
    forgery: Forgery, tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    assert "summons_contradicts" in await codes(make_summoned(forgery), tmp_path, signer, private_key)


async def test_a_ninth_question_is_found(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    assert "summons_contradicts" in await codes(make_summoned(questions=9), tmp_path, signer, private_key)


async def test_an_answer_in_the_name_of_another_role_is_found(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    told = replay_history(make_summoned(), label(e.SummonsAnswered, role="worker"))
    assert "role_contradicts" in await codes(told, tmp_path, signer, private_key)
