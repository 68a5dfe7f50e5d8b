"""Who votes beside people, what a review is before votes are asked for, and how many beats it waits for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import ApprovalsRequest, ContextRequest, codec
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.people.review_votes import ReviewStanding
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import pending
from gatewright.rules.reviewing import MODEL_FINDING
from gatewright.rules.reviewing import standing as review_standing
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached
from gatewright.services.gatekeeper.policies.load import load
from gatewright.work_documents.context import context_of
from tests.attacks.people import README, Files, Inbox, open_inbox, policies_with, signed
from tests.attacks.test_repairs import AGENT, BETTER
from tests.attacks.test_review import BEAT, REVIEW, cast, standing, vote, voters
from tests.attacks.whole_gatekeeper import RUN, make_review
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

QUORUM: dict[str, object] = {"domain": ["owner"], "quality": ["@quality"], "model_counts": True}
MAKER = "gpt-5.5"
MODEL = "claude-sonnet-4-5"
REMARK = Finding(code=MODEL_FINDING, message="a long line", blocking=False, path="README.md", line=1)


@asynccontextmanager
async def opened(
    make_repository: MakeRepository, folder: Path, beat: int | None = None, **changes: object
) -> AsyncIterator[Inbox]:
    rule = {name: value for name, value in (REVIEW | changes).items() if value is not None}
    repository, people = make_repository(f"{folder.name}-source"), voters()
    async with open_inbox(repository, folder, rule, clock=HandClock(), people=people, beat=beat, adapt=apart) as inbox:
        yield inbox


def apart(policies: Path) -> None:
    """Have the models of the worker's route do no reviews."""
    told = json.loads((policies / "models.json").read_text())
    for route in told["routes"]:
        if route["role"] == "worker":
            route["models"] = [MAKER]
    (policies / "models.json").write_text(json.dumps(told))


async def consulted(inbox: Inbox, *findings: Finding, files: Files = README, **contract: object) -> Run:
    """A run whose reviewer has asked a model, which has said these things."""
    await inbox.submit(**contract)
    await inbox.gatekeeper.work(inbox.gatekeeper.patch(files))
    said = Consultation(
        model=MODEL, answer_schema="review_opinion.v1", answer_schema_sha256="0" * 64, prompts={}, directive="d", asked=1,
        tokens=1, cost_usd=0.0, artifacts=(),
    )  # fmt: skip
    report = replace(make_review(await inbox.run()), consultation=said, findings=findings)
    await inbox.gatekeeper.answer("reviewer", report)
    return await inbox.gatekeeper.test()


async def voters_of(inbox: Inbox) -> list[str]:
    return [each.voter for each in (await standing(inbox)).votes]


async def draft_of(inbox: Inbox) -> ReviewStanding | None:
    return (await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=RUN)))).draft


async def section_of(inbox: Inbox) -> str:
    """What makers read of the review."""
    position = await inbox.gatekeeper.orchestrator.ledger.get(RUN)
    records = tuple(record for step in position.transitions for record in step.events)
    request = ContextRequest(run_id=RUN, selectors=("review",))
    return context_of(await inbox.run(), records, request).sections[0].text


async def test_a_role_a_model_and_a_person_make_the_three_reviewers(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with opened(make_repository, tmp_path, quorum=QUORUM) as inbox:
        await consulted(inbox)
        assert await voters_of(inbox) == ["role:reviewer", f"model:{MODEL}"]
        assert (await standing(inbox)).blockers == ("2 of 3 reviewers have voted", "no vote of the domain: owner")
        assert inbox.gatekeeper.nothing_landed(), "two machines are no consensus"
        assert "- green model:claude-sonnet-4-5: its report passed" in await section_of(inbox)
        await cast(inbox, "owner", "green")
        run = await inbox.run()
        assert run.status == "SUCCESS"
        found = await standing(inbox)
        assert found.consensus is not None
        assert found.consensus.green == ("role:reviewer", f"model:{MODEL}", "owner")
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_model_fills_no_seat(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with opened(make_repository, tmp_path, quorum=QUORUM | {"role_counts": False, "reviewers": 2}) as inbox:
        await consulted(inbox)
        await cast(inbox, "owner", "green")
        assert await voters_of(inbox) == [f"model:{MODEL}", "owner"]
        assert (await standing(inbox)).blockers == ("no vote of quality: @quality",)
        assert inbox.gatekeeper.nothing_landed()


@pytest.mark.parametrize(
    ("executor", "counts"),
    [
        (Executor(kind="model", model=MAKER), True),
        (Executor(kind="agent", agent="codex"), True),
        (Executor(kind="agent", agent="codex", model=MODEL), False),
    ],
    ids=["another", "one of the worker's route", "itself, when the routes were others"],
)
async def test_a_model_has_no_vote_on_a_change_of_its_own(
    make_repository: MakeRepository, tmp_path: Path, executor: Executor, counts: bool
) -> None:
    async with opened(make_repository, tmp_path, quorum=QUORUM) as inbox:
        run = await consulted(inbox, executor=replace(executor, model=MAKER if executor.model == MODEL else executor.model))
        assert run.contract is not None
        (asked,) = run.approvals.values()
        made = replace(run, contract=replace(run.contract, executor=executor))
        found = review_standing(made, asked)
        assert found is not None
        assert (f"model:{MODEL}" in [each.voter for each in found.votes]) == counts


def test_a_model_that_works_and_reviews_counts_for_no_rule(tmp_path: Path) -> None:
    """Whichever of its route a task comes to, a stand-in too, it never votes on its own change."""
    policies = policies_with(tmp_path / "policies", REVIEW | {"quorum": QUORUM}, people=voters())
    with pytest.raises(ConfigurationError, match="to the worker and to the reviewer"):
        load(policies)
    apart(policies)
    load(policies)


async def test_models_with_findings_or_excluded_by_rule_have_no_vote(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with opened(make_repository, tmp_path / "found", quorum=QUORUM) as inbox:
        await consulted(inbox, REMARK)
        assert await voters_of(inbox) == ["role:reviewer"]
    async with opened(make_repository, tmp_path / "off", quorum=QUORUM | {"model_counts": False}) as inbox:
        await consulted(inbox)
        assert await voters_of(inbox) == ["role:reviewer"]


async def test_a_review_is_a_draft_until_votes_are_requested(make_repository: MakeRepository, tmp_path: Path) -> None:
    quorum = {"domain": ["owner"], "quality": ["tester"]}
    async with opened(make_repository, tmp_path, quorum=quorum, on_reject="repair") as inbox:
        await inbox.submit(executor=AGENT, timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0))
        draft = await draft_of(inbox)
        assert draft is not None
        assert (draft.phase, draft.votes) == ("DRAFT", ())
        assert "stands in S2, in round 1" in draft.blockers[0]
        assert f"{RUN}: DRAFT" in await section_of(inbox)
        await inbox.work()
        assert await draft_of(inbox) is None
        assert (await standing(inbox)).phase == "REVIEW"
        assert "DRAFT" not in await section_of(inbox)
        await cast(inbox, "tester", "green")
        await cast(inbox, "owner", "red")
        again = await draft_of(inbox)
        assert again is not None
        assert "stands in S2, in round 2" in again.blockers[0]
        assert (await standing(inbox)).phase == "REJECTED"
        await inbox.work(BETTER)
        for person in ("tester", "owner"):
            await cast(inbox, person, "green")
        assert await draft_of(inbox) is None
        assert (await standing(inbox)).phase == "MERGED"


async def test_a_run_that_no_rule_has_reviewed_is_no_draft(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with opened(make_repository, tmp_path / "refs", refs=["refs/heads/release"]) as inbox:
        await inbox.submit()
        assert await draft_of(inbox) is None
    async with opened(make_repository, tmp_path / "landing", reason="landing", quorum=None) as inbox:
        await inbox.submit()
        assert await draft_of(inbox) is None
        assert "No votes are asked for" in await section_of(inbox)


async def test_a_quorum_missed_for_four_beats_ends_the_run(make_repository: MakeRepository, tmp_path: Path) -> None:
    escalated = {"approvers": ["owner", "tester"], "escalate_to": ["owner", "tester", "architect"]}
    async with opened(make_repository, tmp_path, BEAT, within_seconds=None, within_beats=4, **escalated) as inbox:
        assert isinstance(inbox.clock, HandClock)
        await inbox.to_the_candidate()
        first = await inbox.asked()
        inbox.clock.seconds += 4 * BEAT - 1
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
        assert await inbox.asked() == first, "the fourth beat is not over"
        early = signed(await vote(inbox, "architect", "green"), "architect")
        inbox.clock.seconds += 1
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
        second = await inbox.asked()
        assert (first.approvers, second.approvers) == (("owner", "tester"), ("owner", "tester", "architect"))
        assert (second.escalates_from, second.candidate_tree) == (first.request_id, first.candidate_tree)
        assert early.document.count(first.request_id) == 1
        await cast(inbox, "architect", "green")
        inbox.clock.seconds += 4 * BEAT + 1
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
        run = await inbox.run()
        assert run.failure is not None
        assert (run.failure.code, pending(run)) == ("approval_expired", ())
        assert inbox.gatekeeper.nothing_landed()
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()
