"""Votes on a change whose target branch or change request moves: void, and requested again with what it got."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import ApprovalsRequest, ApproverRoster, codec
from gatewright.contracts.people.approvals import RosterKey, RosterPerson
from gatewright.contracts.task_contract import Inputs, Rollback
from gatewright.contracts.vocabulary import AcceptanceTest, Artifact, SourceBranch
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import judge_decision, pending
from gatewright.rules.drift import drift_faults, open_reviews
from gatewright.run import events as e
from gatewright.run.state import Run
from gatewright.services.gatekeeper.gates.landing.targets import FRESH
from tests.attacks.people import LANDING, README, Inbox, open_inbox, signed
from tests.attacks.test_moved_targets import MAIN, without_rules
from tests.attacks.test_review import QUORUM, REVIEW, cast, vote, voters
from tests.attacks.test_review_runs import review_of
from tests.attacks.whole_gatekeeper import RUN, make_review
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository, Repository

PATIENT = REVIEW | {"within_seconds": 86_400, "quorum": QUORUM | {"role_counts": False, "reviewers": 2}}


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    found = make_repository()
    found.git("checkout", "--quiet", "--detach")
    return found


@asynccontextmanager
async def reviewed(
    repository: Repository, folder: Path, *rules: dict[str, object], landing: str = "target"
) -> AsyncIterator[Inbox]:
    """A change for main, which waits for votes."""
    async with open_inbox(repository, folder, *rules, clock=HandClock(), people=voters(), adapt=without_rules) as inbox:
        target = RepositoryField(url=repository.url, target_ref=MAIN, landing=landing)  # type: ignore[arg-type]
        await inbox.gatekeeper.submit(replace(inbox.contract(), repository=target))
        await inbox.gatekeeper.plan()
        await inbox.work()
        repository.git("reset", "--quiet", "--hard")
        yield inbox


def move(inbox: Inbox, repository: Repository, name: str = "other.txt") -> str:
    """Another commit on main, once an earlier lookup is out of date."""
    moved = repository.commit({name: b"another change\n"})
    repository.git("update-ref", MAIN, moved)
    assert isinstance(inbox.clock, HandClock)
    inbox.clock.seconds += FRESH
    return moved


async def statuses(inbox: Inbox) -> list[str]:
    return [asked.status for asked in (await inbox.run()).approvals.values()]


async def moves(inbox: Inbox) -> list[e.TargetMoved]:
    position = await inbox.gatekeeper.orchestrator.ledger.get(RUN)
    events = [e.event_of(record) for step in position.transitions for record in step.events]
    return [event for event in events if isinstance(event, e.TargetMoved)]


async def test_votes_are_void_once_the_branch_moves(repository: Repository, tmp_path: Path) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        await cast(inbox, "owner", "green")
        before = await inbox.run()
        late = signed(await vote(inbox, "tester", "green"), "tester")
        moved = move(inbox, repository)
        with pytest.raises(GatewrightError, match="no longer applies, because refs/heads/main moved"):
            await inbox.decide(late)
        assert await statuses(inbox) == ["lapsed", "pending"]
        (event,) = await moves(inbox)
        assert (event.found, event.files, event.commits, event.requests) == (moved, ("other.txt",), (moved,), (f"{RUN}.ask.1",))
        assert [*drift_faults(before, event)] == []
        for forged in ({"requests": ()}, {"expected": moved}, {"ref": "refs/heads/other"}):
            assert [*drift_faults(before, replace(event, **forged))], forged
        why = (await inbox.asked()).why
        assert all(words in why for words in (moved[:12], "other.txt", "asked anew"))
        await cast(inbox, "tester", "green")
        assert (await inbox.run()).state == "AWAITING_APPROVAL", "the owner's vote counts no more"
        await cast(inbox, "owner", "green")
        assert (await inbox.run()).ended
        assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


async def test_a_list_of_requests_finds_the_move_too(repository: Repository, tmp_path: Path) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        await cast(inbox, "owner", "green")
        move(inbox, repository)
        run = await inbox.run()
        await inbox.gatekeeper.orchestrator.gates.targets.drifts(run, patience=5.0)
        listed = await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=RUN)))
        assert [each.status for each in listed.approvals] == ["lapsed", "pending"]


async def test_a_consensus_lapses_while_another_rule_waits(repository: Repository, tmp_path: Path) -> None:
    landing = LANDING | {"approvers": ["architect"]}
    async with reviewed(repository, tmp_path, PATIENT, landing) as inbox:
        await cast(inbox, "owner", "green")
        await cast(inbox, "tester", "green")
        assert await statuses(inbox) == ["approved", "pending"]
        move(inbox, repository)
        await inbox.decide(signed(await inbox.said("approve", "architect"), "architect"))
        run = await inbox.run()
        assert (run.state, await statuses(inbox)) == ("AWAITING_APPROVAL", ["lapsed", "approved", "pending"])


async def test_the_first_vote_after_a_move_is_about_the_new_base(repository: Repository, tmp_path: Path) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        moved = move(inbox, repository)
        await cast(inbox, "owner", "green")
        assert ([*(await inbox.run()).moved_refs.values()], await statuses(inbox)) == ([moved], ["pending"])
        await cast(inbox, "tester", "green")
        assert [event.requests for event in await moves(inbox)] == [()]


@pytest.mark.parametrize(("name", "is_void"), [("other.txt", False), ("README.md", True)])
async def test_a_narrow_rule_voids_votes_only_for_paths_of_the_contract(
    repository: Repository, tmp_path: Path, name: str, is_void: bool
) -> None:
    narrow = PATIENT | {"quorum": QUORUM | {"role_counts": False, "reviewers": 2, "drift": "scope"}}
    async with reviewed(repository, tmp_path, narrow) as inbox:
        await cast(inbox, "owner", "green")
        move(inbox, repository, name)
        run = await inbox.run()
        await inbox.gatekeeper.orchestrator.gates.targets.drifts(run, patience=5.0)
        await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=RUN)))
        assert await statuses(inbox) == (["lapsed", "pending"] if is_void else ["pending"])


async def test_a_void_vote_cannot_be_sent_again(repository: Repository, tmp_path: Path) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        old = await cast(inbox, "owner", "green")
        move(inbox, repository)
        with pytest.raises(GatewrightError, match="no longer applies"):
            await inbox.decide(old)
        before = await inbox.run()
        with pytest.raises(GatewrightError) as refusal:
            await inbox.decide(old)
        assert (refusal.value.reason, (await inbox.run()).seq) == ("approval_void", before.seq)


async def test_a_run_without_a_target_branch_keeps_its_votes(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_inbox(make_repository(), tmp_path, PATIENT, clock=HandClock(), people=voters()) as inbox:
        await inbox.to_the_candidate()
        await cast(inbox, "owner", "green")
        run: Run = await inbox.run()
        assert await inbox.gatekeeper.orchestrator.gates.targets.drifts(run, patience=5.0) == ()
        assert len(pending(run)) == 1


async def test_a_branch_that_is_gone_voids_votes_once(repository: Repository, tmp_path: Path) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        await cast(inbox, "owner", "green")
        repository.git("update-ref", "-d", MAIN)
        assert isinstance(inbox.clock, HandClock)
        inbox.clock.seconds += FRESH
        late = signed(await vote(inbox, "tester", "green"), "tester")
        with pytest.raises(GatewrightError, match="to nothing"):
            await inbox.decide(late)
        await cast(inbox, "owner", "green")
        inbox.clock.seconds += FRESH
        await cast(inbox, "tester", "green")
        assert len(await moves(inbox)) == 1


PULL = "refs/pull/7/head"


@pytest.mark.parametrize("kind", ["review", "change"])
async def test_votes_are_void_once_the_change_request_moves(repository: Repository, tmp_path: Path, kind: str) -> None:
    async with open_inbox(repository, tmp_path, PATIENT, clock=HandClock(), people=voters(), adapt=without_rules) as inbox:
        order = review_of(inbox, README)
        assert order.source_branch is not None
        source = replace(order.source_branch, ref=PULL)
        repository.git("update-ref", PULL, source.head)
        if kind == "review":
            run = await inbox.gatekeeper.submit(replace(order, source_branch=source))
            await inbox.gatekeeper.answer("reviewer", make_review(run))
        else:
            await inbox.submit(source_branch=source)
            await inbox.work()
            repository.git("reset", "--quiet", "--hard")
        await cast(inbox, "owner", "green")
        late = signed(await vote(inbox, "tester", "green"), "tester")
        repository.git("checkout", "--quiet", source.head)
        moved = repository.commit({"pushed.txt": b"later"})
        repository.git("update-ref", PULL, moved)
        assert isinstance(inbox.clock, HandClock)
        inbox.clock.seconds += FRESH
        with pytest.raises(GatewrightError, match=f"no longer applies, because {PULL} moved"):
            await inbox.decide(late)
        (event,) = await moves(inbox)
        assert (event.ref, event.found, event.files, event.commits) == (PULL, moved, ("pushed.txt",), (moved,))
        assert await statuses(inbox) == ["lapsed", "pending"]
        assert "pushed.txt" in (await inbox.asked()).why
        await cast(inbox, "tester", "green")
        assert (await inbox.run()).parked, "the owner's vote counts no more"
        await cast(inbox, "owner", "green")
        assert (await inbox.run()).status == "SUCCESS"
    assert verify(tmp_path / "runs" / RUN, [keys.load(tmp_path / "key.pem").public]).findings == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"inputs": Inputs(spec="another order", artifacts=())},
        {"inputs": Inputs(spec="modernise the sources", artifacts=(Artifact(name="spec", uri="u", sha256="1" * 64),))},
        {"inputs": Inputs(spec="modernise the sources", artifacts=(Artifact(name="result:run-1", uri="u", sha256="1" * 64),))},
        {"inputs": Inputs(spec="modernise the sources", artifacts=(Artifact(name="document:a", uri="u", sha256="1" * 64),))},
        {"rollback": Rollback(strategy="worktree_drop", baseline_ref="1" * 40)},
        {"acceptance_tests": (AcceptanceTest(name="unit", cmd="false", must_pass=True),)},
        {"source_branch": SourceBranch(name="topic", head="1" * 40, base="2" * 40, commits=1)},
    ],
    ids=["spec", "artifact", "input run", "document", "baseline", "tests", "head"],
)
async def test_each_other_source_is_pinned_by_the_request(
    repository: Repository, tmp_path: Path, changed: dict[str, object]
) -> None:
    async with reviewed(repository, tmp_path, PATIENT) as inbox:
        await cast(inbox, "owner", "green")
        run = await inbox.run()
        assert run.contract is not None
        other = replace(run, contract=replace(run.contract, **changed))
        assert (len(open_reviews(run)), open_reviews(other)) == (1, ())
        roster = ApproverRoster(version="1", people=(RosterPerson(name="x", keys=(RosterKey(key="ssh-ed25519 " + "A" * 40),)),))
        late = signed(await vote(inbox, "tester", "green"), "tester")
        with pytest.raises(GatewrightError) as refusal:
            judge_decision(other, late, roster, inbox.clock.now())
        assert refusal.value.reason == "approval_void"
