"""The model critic in a bundle, also against one who has the gatekeeper's key: asked where a rule requires it, and obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import SummonsAnswer
from gatewright.contracts.people.approvals import ApprovalRule, ModelCritic
from gatewright.contracts.people.summons import CriticFinding, Critique, MissedCase, Recommendation
from gatewright.contracts.routing import ModelTester
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.rules.critic import critic_id, critic_limits
from gatewright.rules.endings import critic_blocked
from gatewright.rules.model_tester import tester_id, tester_limits
from gatewright.rules.routing import route
from gatewright.rules.summons import critic_order, tester_order
from gatewright.run import events as e
from tests.evidence.approved_runs import Forgery, as_it_is
from tests.evidence.recorded_runs import STAMP, under_policies
from tests.evidence.routed_runs import RULES, RoutedRun
from tests.evidence.test_summons import answered, asked, codes

DOUBTS = ApprovalRule(
    name="doubts", reason="critic", risk="medium", approvers=("ana",), within_seconds=60,
    model_first=ModelCritic(on=("unconfined_tests", "proof_missing", "mutants_survived", "findings_left")),
)  # fmt: skip
FINDING = CriticFinding(path="src/a.py", severity="high", message="not bounded", line=1)


def with_doubts(payload: e.RunEvent) -> e.RunEvent:
    if isinstance(payload, e.RunAccepted):
        digests = payload.policies | {"approval_rules.json": "c" * 64, "routing_rules.json": "a" * 64}
        return under_policies(payload, digests, routing=RULES, approval_rules=(DOUBTS,))
    return payload


def make_doubted(recommendation: Recommendation, forgery: Forgery = as_it_is, *, lands: bool = True) -> RoutedRun:
    """A run whose candidate leaves doubts, after the critic's answer: landed, or ended as blocked."""
    run = RoutedRun(forgery=with_doubts)
    run.up_to_the_tests()
    run.step(e.LabelledEvent(e.ReviewRouted(routing=route(run.run))))
    limits = critic_limits(run.run)
    assert limits is not None, run.run.routing
    run.forgery = forgery
    run.step(e.LabelledEvent(e.SummonsAsked(task=critic_order(run.run, limits))))
    findings = (FINDING,) if recommendation == "block" else ()
    answer = SummonsAnswer(
        run_id=run.run_id, task_id=critic_id(run.run), role="reviewer", status="ANSWERED", code="ok", answered_at=STAMP,
        answer="It was read.", critique=Critique(recommendation=recommendation, findings=findings),
    )  # fmt: skip
    run.step(e.LabelledEvent(e.SummonsAnswered(answer=answer)))
    if lands:
        run.finish()
    else:
        why = critic_blocked(answer)
        end = e.RunFinished(status="FAILED", code=why.code, message=why.message)
        run.step(e.LabelledEvent(e.StateEntered(state="FAILED")), e.LabelledEvent(end))
    return run


def unasked(payload: e.RunEvent) -> e.RunEvent | None:
    return None if isinstance(payload, e.SummonsAsked | e.SummonsAnswered) else payload


def silent(payload: e.RunEvent) -> e.RunEvent | None:
    return None if isinstance(payload, e.SummonsAnswered) else payload


def another_end(payload: e.RunEvent) -> e.RunEvent:
    return replace(payload, message="the model critic was content") if isinstance(payload, e.RunFinished) else payload


async def test_a_critics_answer_verifies(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    assert await codes(make_doubted("proceed"), tmp_path / "a", signer, private_key) == set()
    assert await codes(make_doubted("block", lands=False), tmp_path / "b", signer, private_key) == set()


FORGERIES = {
    "never asked": (make_doubted("proceed", unasked), "summons_contradicts"),
    "never answered": (make_doubted("proceed", silent), "summons_contradicts"),
    "asked about other doubts": (make_doubted("proceed", asked(brief="All is well.")), "summons_contradicts"),
    "answered without a recommendation": (make_doubted("proceed", answered(critique=None)), "summons_contradicts"),
    "blocked and landed": (make_doubted("block"), "summons_contradicts"),
    "a person was due and not asked": (make_doubted("ask_person"), "approval_contradicts"),
    "ended for another reason": (make_doubted("block", another_end, lands=False), "end_contradicts"),
    "ended although it proceeds": (make_doubted("proceed", lands=False), "end_contradicts"),
}


@pytest.mark.parametrize(("run", "code"), FORGERIES.values(), ids=FORGERIES)
async def test_a_forged_criticism_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, run: RoutedRun, code: str
) -> None:
    assert code in await codes(run, tmp_path, signer, private_key)


TESTED = replace(RULES, model_tester=ModelTester())


def with_tester(payload: e.RunEvent) -> e.RunEvent:
    if isinstance(payload, e.RunAccepted):
        return under_policies(payload, payload.policies | {"routing_rules.json": "a" * 64}, routing=TESTED)
    return payload


def make_tested(forgery: Forgery = as_it_is) -> RoutedRun:
    """A landed run whose routing rules ask a model tester, after its answer."""
    run = RoutedRun(forgery=with_tester)
    run.up_to_the_tests()
    run.step(e.LabelledEvent(e.ReviewRouted(routing=route(run.run))))
    limits = tester_limits(run.run)
    assert limits is not None
    run.forgery = forgery
    run.step(e.LabelledEvent(e.SummonsAsked(task=tester_order(run.run, limits))))
    answer = SummonsAnswer(
        run_id=run.run_id, task_id=tester_id(run.run), role="reviewer", status="ANSWERED", code="ok", answered_at=STAMP,
        answer="One is missed.", missed=(MissedCase(case="zero"),),
    )  # fmt: skip
    run.step(e.LabelledEvent(e.SummonsAnswered(answer=answer)))
    run.finish()
    return run


async def test_a_testers_answer_verifies(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    assert await codes(make_tested(), tmp_path, signer, private_key) == set()


@pytest.mark.parametrize(
    "forgery",
    [unasked, silent, asked(brief="All is well."), answered(critique=Critique(recommendation="block"))],
    ids=["never-asked", "never-answered", "other-brief", "a-recommendation"],
)
async def test_a_forged_tester_is_found(tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery) -> None:
    assert "summons_contradicts" in await codes(make_tested(forgery), tmp_path, signer, private_key)
