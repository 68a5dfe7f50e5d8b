"""People vote on commits under review: the quorum decides the run, and its authors, forgers and latecomers do not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.contracts.vocabulary import SourceBranch
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on, pending
from gatewright.rules.contracts import with_role
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached
from tests.attacks import test_review as reviews
from tests.attacks.people import LANDING, WEEK, Inbox, open_inbox, signed
from tests.attacks.test_review import cast, vote, voters
from tests.attacks.whole_gatekeeper import RUN, make_review
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

QUORUM: dict[str, object] = {"domain": ["owner"], "quality": ["@quality"], "role_counts": False, "reviewers": 2}
VOTE = reviews.REVIEW | {"quorum": QUORUM, "within_seconds": WEEK, "escalate_to": []}
README: dict[str, bytes | None] = {"README.md": b"another text\n"}
AUTHOR = "A U Thor <author@example.org>"
DOCS = LANDING | {"name": "docs", "reason": "path_class", "paths": ["/docs/"], "approvers": ["owner"]}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Inbox]:
    async with opened(make_repository(), tmp_path, clock, VOTE) as inbox:
        yield inbox


def opened(
    repository: Repository, folder: Path, clock: HandClock, *rules: dict[str, object], routing: bool = False
) -> AbstractAsyncContextManager[Inbox]:
    def with_routing(policies: Path) -> None:
        written = {"version": "1", "low_paths": ["README.md"], "high_paths": ["docs/"]}
        (policies / "routing_rules.json").write_text(json.dumps(written))

    return open_inbox(repository, folder, *rules, clock=clock, people=voters(), adapt=with_routing if routing else None)


def review_of(
    inbox: Inbox, files: dict[str, bytes | None], author: str = AUTHOR, named: tuple[str, ...] | None = None
) -> TaskContract:
    """The order to review one commit of ``author`` on the branch ``topic``; it names its authors, or those of ``named``."""
    repository = inbox.gatekeeper.repository
    base = repository.head()
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit(files)
    repository.git("commit", "-q", "--amend", "--no-edit", f"--author={author}")
    source = SourceBranch(
        name="topic", head=repository.head(), base=base, commits=1, authors=(author,) if named is None else named
    )
    repository.git("checkout", "-q", "-")
    inbox.gatekeeper.refs = repository.git("for-each-ref", "--format=%(refname) %(objectname)")
    order = inbox.contract(
        task_type="REVIEW", executor=None, allowed_paths=(), acceptance_tests=(), required_outputs=(), source_branch=source
    )
    nowhere = RepositoryField(url=repository.url, landing="none")
    return with_role(replace(order, repository=nowhere, rollback=replace(order.rollback, baseline_ref=base)))


async def reviewed(
    inbox: Inbox, files: dict[str, bytes | None], author: str = AUTHOR, named: tuple[str, ...] | None = None
) -> Run:
    """The run after the reviewer found nothing."""
    run = await inbox.gatekeeper.submit(review_of(inbox, files, author, named))
    return run if run.ended else await inbox.gatekeeper.answer("reviewer", make_review(run))


def assert_verified(folder: Path, repository: str = "") -> tuple[str, ...]:
    found = verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public], repository=repository or None)
    assert found.findings == ()
    return found.approved


async def test_a_quorum_of_people_passes_a_review(inbox: Inbox, tmp_path: Path) -> None:
    run = await reviewed(inbox, README)
    assert (run.state, run.parked_from) == ("AWAITING_APPROVAL", "S3")
    await cast(inbox, "owner", "green")
    assert (await inbox.run()).parked
    await cast(inbox, "tester", "green")
    run = await inbox.run()
    assert (run.status, run.landed, inbox.gatekeeper.nothing_landed()) == ("SUCCESS", None, True)
    votes = await asyncio.to_thread(assert_verified, tmp_path, inbox.gatekeeper.repository.url)
    assert [words.split(" (")[0] for words in votes] == ["owner", "tester"]


async def test_a_red_vote_blocks_a_review_until_it_changes(inbox: Inbox, tmp_path: Path) -> None:
    await reviewed(inbox, README)
    await cast(inbox, "tester", "red")
    await cast(inbox, "owner", "green")
    assert (await inbox.run()).parked
    await cast(inbox, "tester", "green")
    assert (await inbox.run()).status == "SUCCESS"
    assert len(assert_verified(tmp_path)) == 3


async def test_too_few_votes_never_pass_a_review(inbox: Inbox, clock: HandClock, tmp_path: Path) -> None:
    await reviewed(inbox, README)
    await cast(inbox, "owner", "green")
    clock.seconds += 2 * WEEK
    await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("late"))
    run = await inbox.run()
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "approval_expired")
    assert_verified(tmp_path)


@pytest.mark.parametrize("author", ["Owner <someone@example.net>", "Other <OWNER@example.org>"])
async def test_an_author_of_the_commits_does_not_vote(inbox: Inbox, author: str) -> None:
    await reviewed(inbox, README, author)
    assert await reviews.refused(inbox, signed(await vote(inbox, "owner", "green"), "owner")) == "approval_of_own_run"


@pytest.mark.parametrize("named", [(), ("A U Thor <other@example.org>",), ("Other <author@example.org>",)])
async def test_an_order_that_hides_an_author_is_refused(inbox: Inbox, named: tuple[str, ...]) -> None:
    run = await reviewed(inbox, README, named=named)
    assert run.failure is not None
    assert (run.failure.code, run.candidate, run.approvals) == ("source_differs", None, {})


async def test_forged_and_borrowed_votes_count_for_nothing(inbox: Inbox) -> None:
    await reviewed(inbox, README)
    assert await reviews.refused(inbox, signed(await vote(inbox, "owner", "green"), "tester")) == "approver_differs"
    assert await reviews.refused(inbox, signed(await vote(inbox, "ben", "green"), "ben")) == "approver_not_allowed"
    assert await reviews.refused(inbox, signed(await vote(inbox, "owner", "green", "tests:1"), "owner")) == "anchor_unresolved"
    other = decision_on(replace(await inbox.asked(), candidate_tree="1" * 40), verdict="vote", person="owner", decided_at="")
    with pytest.raises(GatewrightError):
        await inbox.decide(signed(other, "owner"))
    assert (await inbox.run()).parked


@pytest.mark.parametrize(("files", "asked"), [(README, []), ({"docs/a.md": b"text\n"}, ["docs"])])
async def test_a_class_of_paths_asks_its_people_about_a_review(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, files: dict[str, bytes | None], asked: list[str]
) -> None:
    async with opened(make_repository(), tmp_path, clock, DOCS) as inbox:
        run = await reviewed(inbox, files)
        assert [each.request.rule for each in pending(run)] == asked
        if asked:
            await inbox.decide(signed(await inbox.said("reject", "owner", comment="not this"), "owner"))
        run = await inbox.run()
        assert (run.status, run.failure and run.failure.code) == (
            ("FAILED", "approval_rejected") if asked else ("SUCCESS", None)
        )
    assert_verified(tmp_path)


@pytest.mark.parametrize(("path", "asked"), [("README.md", []), ("docs/a.md", ["risk"]), (".github/workflows/a.yml", ["risk"])])
async def test_the_risk_of_reviewed_commits_asks_people(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, path: str, asked: list[str]
) -> None:
    rule = LANDING | {"name": "risk", "reason": "risk_tier", "approvers": ["owner"]}
    async with opened(make_repository(), tmp_path, clock, rule, routing=True) as inbox:
        run = await reviewed(inbox, {path: b"on: push\n"})
        assert run.routing is not None
        assert [each.request.rule for each in pending(run)] == asked
        if asked:
            await inbox.decide(signed(await inbox.said("approve", "owner"), "owner"))
        assert (await inbox.run()).status == "SUCCESS"
    assert_verified(tmp_path)


async def test_a_landing_rule_asks_no_person_about_a_review(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with opened(make_repository(), tmp_path, clock, LANDING | {"approvers": ["owner"]}) as inbox:
        assert (await reviewed(inbox, README, named=())).status == "SUCCESS"


async def test_a_review_by_an_unknown_orderer_ends_before_any_work(inbox: Inbox) -> None:
    run = await inbox.gatekeeper.submit(replace(review_of(inbox, README), ordered_by=()))
    assert run.failure is not None
    assert (run.failure.code, run.tasks) == ("orderer_unknown", {})
