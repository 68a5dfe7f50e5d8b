"""A model critic before people: it answers its own rule at most, and only with findings about this change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.contracts import Error, SummonsAnswer
from gatewright.contracts.people.summons import CriticFinding, Critique, Recommendation
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import matching_rules, pending
from gatewright.rules.critic import critic_id
from gatewright.rules.summons import CHANGE, GRACE
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached, RoleReplied
from gatewright.services.gatekeeper.policies.load import load
from gatewright.work_documents.remarks import run_remarks
from tests.attacks.people import LANDING
from tests.attacks.test_routing import FILES, RISK, Routed, Rules, open_routed, with_routing
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

FIRST: Rules = {"on": ["proof_missing"], "timeout_sec": 60}
DOUBTS: Rules = LANDING | {"name": "doubts", "reason": "critic", "risk": "medium", "model_first": FIRST}
FINDING = CriticFinding(path="README.md", severity="medium", message="no test reads it", line=1)
SERIOUS = replace(FINDING, severity="high")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    return make_repository(files=FILES)


def critique(run: Run, recommendation: Recommendation, *findings: CriticFinding) -> SummonsAnswer:
    return SummonsAnswer(
        run_id=RUN,
        task_id=critic_id(run),
        role="reviewer",
        status="ANSWERED",
        code="ok",
        answered_at=timestamp(HandClock().now()),
        answer="It was read.",
        critique=Critique(recommendation=recommendation, findings=findings),
    )


@asynccontextmanager
async def open_doubted(repository: Repository, folder: Path, *asking: Rules) -> AsyncIterator[Routed]:
    """A run whose change is tested without proof, and which waits for the critic."""
    async with open_routed(repository, folder, HandClock(), *asking) as routed:
        run = await routed.made({"README.md": b"other\n"}, proved=False)
        assert (run.state, [*run.summonses], run.approvals) == ("S4", [critic_id(run)], {})
        assert routed.gatekeeper.nothing_landed()
        yield routed


async def answered(routed: Routed, document: SummonsAnswer | Error) -> Run:
    await routed.gatekeeper.orchestrator.advance(RUN, RoleReplied("reviewer", document, "critic"))
    return await routed.run()


def assert_verified(folder: Path) -> None:
    assert verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public]).findings == ()


async def test_a_critic_that_proceeds_answers_its_rule(repository: Repository, tmp_path: Path) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS) as routed:
        (asked,) = (await routed.run()).summonses.values()
        assert asked.task.item.question.startswith("proof_missing:")
        assert [each.name for each in asked.task.evidence] == [CHANGE]
        assert "Acceptance commands:" in asked.task.brief
        run = await answered(routed, critique(await routed.run(), "proceed", FINDING))
        assert (run.status, run.approvals) == ("SUCCESS", {})
        assert [each.line for each in run_remarks((), run) if each.source == "model critic"] == [None, 1]
        assert_verified(tmp_path)


async def test_a_critic_never_replaces_people_of_other_rules(repository: Repository, tmp_path: Path) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS, RISK, DOUBTS | {"name": "plain", "model_first": None}) as routed:
        run = await answered(routed, critique(await routed.run(), "proceed"))
        assert (run.state, [each.request.rule for each in pending(run)]) == ("AWAITING_APPROVAL", ["risk", "plain"])


async def test_a_doubt_outside_the_policy_asks_people_despite_the_model(repository: Repository, tmp_path: Path) -> None:
    narrow = DOUBTS | {"model_first": FIRST | {"on": ["mutants_survived", "proof_missing"]}}
    async with open_doubted(repository, tmp_path, narrow | {"name": "wide"}, DOUBTS) as routed:
        run = await routed.run()
        assert run.routing is not None
        more = replace(run.routing.critic_triggers[0], code="rounds_refused")
        doubtful = replace(run, routing=replace(run.routing, critic_triggers=(*run.routing.critic_triggers, more)))
        (asked,) = run.summonses.values()
        known = {critic_id(run): replace(asked, answer=critique(run, "proceed"))}
        assert matching_rules(replace(run, summonses=known), "candidate") == ()
        assert {each.rule.name for each in matching_rules(replace(doubtful, summonses=known), "candidate")} == {
            "wide",
            "doubts",
        }


UNDECIDED = {
    "it asks for a person": ("ask_person", (FINDING,)),
    "it blocks without a finding": ("block", ()),
    "it proceeds beside a serious finding": ("proceed", (SERIOUS,)),
}


@pytest.mark.parametrize(("recommendation", "findings"), UNDECIDED.values(), ids=UNDECIDED)
async def test_an_undecided_critic_leaves_the_change_to_people(
    repository: Repository, tmp_path: Path, recommendation: Recommendation, findings: tuple[CriticFinding, ...]
) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS) as routed:
        run = await answered(routed, critique(await routed.run(), recommendation, *findings))
        (asked,) = pending(run)
        assert asked.request.rule == "doubts"
        assert "the model critic recommends to" in asked.request.why
        assert "proof_missing:" in asked.request.why
        again = await answered(routed, critique(run, "proceed"))
        assert again.state == "AWAITING_APPROVAL", "a second answer changes nothing"


async def test_no_usable_answer_leaves_the_change_to_people(repository: Repository, tmp_path: Path) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS) as routed:
        run = await routed.run()
        words = replace(critique(run, "proceed"), critique=None)
        run = await answered(routed, words)
        (asked,) = pending(run)
        assert "did not answer (output_schema_mismatch)" in asked.request.why


async def test_a_silent_critic_leaves_the_change_to_people_in_time(repository: Repository, tmp_path: Path) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS) as routed:
        clock = routed.clock
        assert isinstance(clock, HandClock)
        clock.seconds += 59 + GRACE
        await routed.gatekeeper.orchestrator.advance(RUN, DeadlineReached("early"))
        assert (await routed.run()).state == "S4"
        clock.seconds += 1
        await routed.gatekeeper.orchestrator.advance(RUN, DeadlineReached("late"))
        (asked,) = pending(await routed.run())
        assert "did not answer (task_timeout)" in asked.request.why


async def test_a_blocked_change_ends_with_the_findings(repository: Repository, tmp_path: Path) -> None:
    async with open_doubted(repository, tmp_path, DOUBTS) as routed:
        run = await answered(routed, critique(await routed.run(), "block", SERIOUS))
        assert run.failure is not None
        assert (run.status, run.failure.code) == ("FAILED", "critic_blocked")
        assert "README.md:1 high: no test reads it" in run.failure.message
        assert routed.gatekeeper.nothing_landed()
        assert_verified(tmp_path)


UNUSABLE = {
    "another reason": {"reason": "landing"},
    "high risk": {"risk": "high"},
    "forged evidence": {"model_first": FIRST | {"on": ["unconfined_tests"]}},
}


def test_a_critic_judges_no_change_of_its_own_model(tmp_path: Path) -> None:
    policies = with_routing(tmp_path / "policies", DOUBTS)
    models = json.loads((policies / "models.json").read_text())
    (policies / "models.json").write_text(
        json.dumps(models | {"routes": [each | {"models": ["gpt-5.1"]} for each in models["routes"]]})
    )
    with pytest.raises(ConfigurationError, match="would judge its own change"):
        load(policies)


@pytest.mark.parametrize("change", UNUSABLE.values(), ids=UNUSABLE)
def test_a_model_is_asked_first_about_lesser_doubts_only(tmp_path: Path, change: Rules) -> None:
    with pytest.raises(ConfigurationError, match="cannot ask a model first"):
        load(with_routing(tmp_path / "policies", DOUBTS | change))
