"""The roster in force when something takes effect decides: by a key that is gone nothing lands that was signed before."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gatewright.clock import timestamp
from gatewright.contracts import ApprovalsRequest, codec
from gatewright.contracts.vocabulary import Executor, TimeoutRetry
from gatewright.errors import UnavailableError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on, pending
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.gate_checks import LandingCheck
from gatewright.services.gatekeeper.decider.inputs import Continue, DeadlineReached
from gatewright.ssh_signatures import public_line
from tests.attacks import test_approval_grants as grants
from tests.attacks import test_review as reviews
from tests.attacks.people import KEYS, LANDING, WEEK, Inbox, open_inbox, signed
from tests.attacks.test_approvals import refused
from tests.attacks.whole_gatekeeper import RUN
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository
from tests.passkeys import ORIGIN, SoftwarePasskey

for name in ("carol", "new"):
    KEYS.setdefault(name, Ed25519PrivateKey.generate())
PASSKEY = SoftwarePasskey()
SECOND = LANDING | {"name": "second", "approvers": ["ben"]}
AGENT = LANDING | {"name": "agent", "reason": "agent"}
#: An agent makes the change: asked about before any work is given out.
BY_AGENT: dict[str, object] = {"executor": Executor(kind="agent", agent="codex")}
Entry = dict[str, Any]


def entry(name: str, **fields: object) -> Entry:
    return {"name": name, "keys": [{"key": public_line(KEYS[name])}], "groups": ["release"], **fields}


def people() -> dict[str, Any]:
    return {"version": "1", "people": [entry(name) for name in ("ana", "ben", "carol")]}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def roster_of(inbox: Inbox) -> Path:
    file = inbox.gatekeeper.orchestrator.policies.people.roster_file
    assert file is not None
    return file


def amend(inbox: Inbox, change: Callable[[dict[str, Entry]], object]) -> None:
    """Change the operator's file, as an editor does while the gatekeeper runs."""
    known = json.loads(roster_of(inbox).read_text())
    by_name = {each["name"]: each for each in known["people"]}
    change(by_name)
    roster_of(inbox).write_text(json.dumps({"version": "1", "people": list(by_name.values())}))


def revoke(name: str) -> Callable[[dict[str, Entry]], None]:
    def change(known: dict[str, Entry]) -> None:
        known[name]["keys"][0]["revoked_at"] = "2026-01-01T00:00:00+00:00"

    return change


def remove(name: str) -> Callable[[dict[str, Entry]], None]:
    def change(known: dict[str, Entry]) -> None:
        del known[name]

    return change


def expire(name: str) -> Callable[[dict[str, Entry]], None]:
    def change(known: dict[str, Entry]) -> None:
        known[name]["keys"][0]["valid_until"] = "2026-01-01T00:00:00+00:00"

    return change


def exchange(name: str) -> Callable[[dict[str, Entry]], None]:
    """Another key in the place of the person's."""

    def change(known: dict[str, Entry]) -> None:
        known[name]["keys"] = [{"key": public_line(KEYS["new"])}]

    return change


def leave_group(name: str) -> Callable[[dict[str, Entry]], None]:
    def change(known: dict[str, Entry]) -> None:
        known[name]["groups"] = []

    return change


def become_orderer(name: str) -> Callable[[dict[str, Entry]], None]:
    """It turns out that an account of the person's ordered the run."""

    def change(known: dict[str, Entry]) -> None:
        known[name]["accounts"] = ["Dispatcher@example.org"]

    return change


LOSSES = {
    "revoked": revoke("ana"),
    "removed": remove("ana"),
    "expired": expire("ana"),
    "another key": exchange("ana"),
    "no right": leave_group("ana"),
    "a run of their own": become_orderer("ana"),
}
ASKS_GROUP = {"approvers": ["@release"]}


async def approve(inbox: Inbox, name: str, rule: str, key: str = "") -> None:
    """A person's yes to what a rule asks."""
    (request,) = (each.request for each in pending(await inbox.run()) if each.request.rule == rule)
    now = timestamp(inbox.clock.now())
    await inbox.decide(signed(decision_on(request, verdict="approve", person=name, decided_at=now), key or name))


async def events(inbox: Inbox) -> list[str]:
    position = await inbox.gatekeeper.orchestrator.ledger.get(RUN)
    return [record.event_type for step in position.transitions for record in step.events]


def approved_words(folder: Path) -> list[str]:
    """What ``verify`` says of people; the bundle verifies."""
    found = verify(folder / "runs" / RUN, [keys.load(folder / "key.pem").public])
    assert found.findings == ()
    return list(found.approved)


def why(run: Run) -> list[str]:
    return [each.request.why for each in pending(run)]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
async def test_the_first_of_two_yeses_counts_no_more(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, loss: Callable[[dict[str, Entry]], None]
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING | ASKS_GROUP, SECOND, clock=clock, people=people()) as inbox:
        await inbox.to_the_candidate()
        await approve(inbox, "ana", "landing")
        amend(inbox, loss)
        await approve(inbox, "ben", "second")
        run = await inbox.run()
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        assert [each.status for each in run.approvals.values()] == ["lapsed", "approved", "pending"]
        (words,) = why(run)
        assert words.startswith("asked anew, because ana's yes to landing counts no more: ")
        await approve(inbox, "carol", "landing")
        assert (await inbox.run()).status == "SUCCESS"
        said = approved_words(tmp_path)
        assert [each.partition(" (")[0] for each in said if " approved " in each] == ["ana", "ben", "carol"]
        assert any("counts no more" in each for each in said)


async def test_a_vote_of_a_person_who_is_gone_makes_no_consensus(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(), tmp_path, reviews.REVIEW, clock=clock, people=reviews.voters()) as inbox:
        await inbox.to_the_candidate()
        await reviews.cast(inbox, "owner", "green")
        await reviews.cast(inbox, "security", "green")
        amend(inbox, remove("owner"))
        await reviews.cast(inbox, "tester", "green")
        assert ((await inbox.run()).parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        found = await reviews.standing(inbox)
        assert [each.voter for each in found.votes] == ["security", "tester"]
        assert "no vote of the domain: owner" in found.blockers
        await cast_until_over(inbox, clock)
        assert any("owner's vote on review counts no more" in each for each in approved_words(tmp_path))


async def cast_until_over(inbox: Inbox, clock: HandClock) -> None:
    for _ in range(2):
        clock.seconds += 4 * reviews.BEAT + 1
        await inbox.gatekeeper.orchestrator.advance(RUN, DeadlineReached("time"))
    assert (await inbox.run()).failure is not None


async def test_a_domain_that_a_voter_has_lost_is_no_seat(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rule = reviews.REVIEW | {"quorum": reviews.QUORUM | {"domain": ["@domain"], "role_counts": False}}
    voters = reviews.voters()
    known = voters["people"]
    assert isinstance(known, list)
    known[0]["groups"].append("domain")
    known[3]["groups"].append("domain")
    async with open_inbox(make_repository(), tmp_path, rule, clock=clock, people=voters) as inbox:
        await inbox.to_the_candidate()
        await reviews.cast(inbox, "owner", "green")
        await reviews.cast(inbox, "security", "green")
        amend(inbox, lambda known: known["owner"]["groups"].remove("domain"))
        await reviews.cast(inbox, "tester", "green")
        assert (await inbox.run()).parked
        assert "no vote of the domain: @domain" in (await reviews.standing(inbox)).blockers
        await reviews.cast(inbox, "architect", "green")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


async def test_no_earlier_vote_of_a_person_comes_back(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    """Their last word was by a key that was revoked since: none of their words counts then."""
    voters = reviews.voters()
    known = voters["people"]
    assert isinstance(known, list)
    known[0]["keys"].append({"key": public_line(KEYS["new"])})
    async with open_inbox(make_repository(), tmp_path, reviews.REVIEW, clock=clock, people=voters) as inbox:
        await inbox.to_the_candidate()
        await reviews.cast(inbox, "owner", "green")
        await inbox.decide(signed(await reviews.vote(inbox, "owner", "red"), "new"))
        amend(inbox, lambda known: known["owner"]["keys"].pop())
        await reviews.cast(inbox, "security", "green")
        await reviews.cast(inbox, "tester", "green")
        assert ((await inbox.run()).parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        assert [each.voter for each in (await reviews.standing(inbox)).votes] == ["security", "tester"]


async def test_votes_that_are_still_a_consensus_land(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> None:
    rules = (reviews.REVIEW | {"within_seconds": WEEK}, LANDING | {"approvers": ["architect"]})
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock, people=reviews.voters()) as inbox:
        await inbox.to_the_candidate()
        for name in ("owner", "security", "tester"):
            await reviews.cast(inbox, name, "green")
        amend(inbox, lambda known: known["tester"]["groups"].remove("quality"))
        await approve(inbox, "architect", "landing")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


async def test_votes_that_are_no_consensus_any_more_are_asked_for_anew(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rules = (reviews.REVIEW | {"within_seconds": WEEK}, LANDING | {"approvers": ["architect"]})
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock, people=reviews.voters()) as inbox:
        await inbox.to_the_candidate()
        for name in ("owner", "security", "tester"):
            await reviews.cast(inbox, name, "green")
        amend(inbox, remove("tester"))
        await approve(inbox, "architect", "landing")
        run = await inbox.run()
        assert [each.status for each in run.approvals.values()] == ["lapsed", "approved", "pending"]
        assert "3 reviewers vote" in why(run)[0]
        for name in ("owner", "security", "architect"):
            await reviews.cast(inbox, name, "green")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


async def parked_before_work(inbox: Inbox) -> None:
    run = await inbox.submit(**BY_AGENT)
    assert run.state == "AWAITING_APPROVAL", run.failure


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
async def test_a_yes_to_the_work_counts_when_the_change_lands(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, loss: Callable[[dict[str, Entry]], None]
) -> None:
    async with open_inbox(make_repository(), tmp_path, AGENT | ASKS_GROUP, clock=clock, people=people()) as inbox:
        await parked_before_work(inbox)
        await approve(inbox, "ana", "agent")
        assert (await inbox.run()).state == "S2"
        amend(inbox, loss)
        run = await inbox.work()
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        (asked,) = pending(run)
        assert (asked.request.stage, asked.request.on_yes) == ("contract", "the change lands")
        assert asked.request.why.startswith("asked anew, because ana's yes to agent counts no more")
        await approve(inbox, "ben", "agent")
        assert (await inbox.run()).status == "SUCCESS"
        assert (await events(inbox)).count("roster_held") == 2
        approved_words(tmp_path)


async def test_what_lapsed_before_a_repair_is_asked_before_the_next_change_lands(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rules = (AGENT, LANDING | {"on_reject": "repair"})
    retry = TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0)
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock, people=people()) as inbox:
        await inbox.submit(**BY_AGENT, timeout_retry=retry)
        await approve(inbox, "ana", "agent")
        amend(inbox, remove("ana"))
        await inbox.work()
        (request,) = (each.request for each in pending(await inbox.run()))
        now = timestamp(clock.now())
        no = decision_on(request, verdict="reject", person="ben", decided_at=now, comment="say it otherwise")
        await inbox.decide(signed(no, "ben"))
        run = await inbox.run()
        assert (run.state, run.attempt) == ("S2", 2)
        run = await inbox.work({"README.md": b"otherwise\n"})
        assert sorted(each.request.rule for each in pending(run)) == ["agent", "landing"]
        await approve(inbox, "carol", "agent")
        await approve(inbox, "ben", "landing")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


@pytest.mark.parametrize("revoked_itself", [True, False], ids=["the grant", "its key"])
async def test_a_grant_that_was_used_and_revoked_before_the_landing(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, revoked_itself: bool
) -> None:
    rule = AGENT | {"grants": {"within_seconds": 8 * 3600, "uses": 5}}
    async with open_inbox(make_repository(), tmp_path, rule, clock=clock, people=people()) as inbox:
        grant = grants.grant_on(inbox, rule="agent", reason="agent")
        await grants.bring(inbox, grant)
        assert (await inbox.submit(**BY_AGENT)).state == "S2"
        if revoked_itself:
            await grants.revoke(inbox, grants.revocation_of(inbox, grant))
        else:
            amend(inbox, revoke("ana"))
        run = await inbox.work()
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True)
        assert why(run)[0].startswith("asked anew, because ana's grant for agent counts no more")
        await approve(inbox, "ben", "agent")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


async def test_a_grant_that_is_over_when_the_change_lands(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rule = AGENT | {"grants": {"within_seconds": 8 * 3600, "uses": 5}}
    async with open_inbox(make_repository(), tmp_path, rule, clock=clock, people=people()) as inbox:
        await grants.bring(inbox, grants.grant_on(inbox, rule="agent", reason="agent"))
        assert (await inbox.submit(**BY_AGENT)).state == "S2"
        clock.seconds += 3600
        run = await inbox.work()
        assert run.parked
        assert "is over since" in why(run)[0]


async def test_a_passkey_that_the_roster_has_no_more(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> None:
    known = people()
    known["people"][0]["keys"] = [PASSKEY.entry]
    async with open_inbox(make_repository(), tmp_path, AGENT, clock=clock, people=known) as inbox:
        await parked_before_work(inbox)
        await inbox.decide(PASSKEY.signed(await inbox.said()))
        assert (await inbox.run()).state == "S2"
        amend(inbox, lambda known: known["ana"]["keys"][0].update(origins=[ORIGIN.replace("https://", "https://other.")]))
        run = await inbox.work()
        assert run.parked
        assert "signed on a page of" in why(run)[0]
        await approve(inbox, "ben", "agent")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


async def test_a_delegation_by_a_key_that_is_gone_gives_the_request_back(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=clock, people=people()) as inbox:
        await inbox.to_the_candidate()
        await inbox.decide(signed(await inbox.said("delegate", delegate_to="ben")))
        assert await refused(inbox, signed(await inbox.said())) == "approval_handed_on"
        amend(inbox, exchange("ana"))
        await approve(inbox, "ana", "landing", key="new")
        assert (await inbox.run()).status == "SUCCESS"
        (asked,) = (await inbox.run()).approvals.values()
        assert asked.delegations == ()
        approved_words(tmp_path)


async def test_a_delegate_who_is_gone_gives_the_request_back(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=clock, people=people()) as inbox:
        await inbox.to_the_candidate()
        await inbox.decide(signed(await inbox.said("delegate", delegate_to="ben")))
        amend(inbox, remove("ben"))
        await approve(inbox, "ana", "landing")
        assert (await inbox.run()).status == "SUCCESS"
        approved_words(tmp_path)


@pytest.fixture
async def ready(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Inbox]:
    """A run that would land by Ana's yes, and waits because the roster cannot be read."""
    async with open_inbox(make_repository(), tmp_path, AGENT, clock=clock, people=people()) as inbox:
        await parked_before_work(inbox)
        await approve(inbox, "ana", "agent")
        await inbox.gatekeeper.work(inbox.gatekeeper.patch({"README.md": b"another text\n"}))
        await inbox.gatekeeper.review()
        kept = roster_of(inbox).read_text()
        roster_of(inbox).write_text("{")
        with pytest.raises(UnavailableError) as waits:
            await inbox.gatekeeper.test()
        assert waits.value.reason == "approvers_unusable"
        roster_of(inbox).write_text(kept)
        assert ((await inbox.run()).ended, inbox.gatekeeper.nothing_landed()) == (False, True)
        yield inbox


async def go_on(inbox: Inbox) -> Run:
    await inbox.gatekeeper.orchestrator.advance(RUN, Continue("again"))
    return await inbox.run()


async def test_a_roster_that_cannot_be_read_holds_the_landing(ready: Inbox, tmp_path: Path) -> None:
    assert (await go_on(ready)).status == "SUCCESS"
    approved_words(tmp_path)


async def test_the_landing_gate_itself_looks_at_the_roster(ready: Inbox) -> None:
    amend(ready, remove("ana"))
    verdict = await ready.gatekeeper.orchestrator.gates.answer(LandingCheck(await ready.run()))
    assert verdict.report.code == "approval_lapsed"
    assert ready.gatekeeper.nothing_landed()


async def test_what_had_landed_before_the_roster_changed_has_landed(ready: Inbox, tmp_path: Path) -> None:
    """The ref moved, the gatekeeper was killed, and the key was revoked before the ledger heard."""
    verdict = await ready.gatekeeper.orchestrator.gates.answer(LandingCheck(await ready.run()))
    assert verdict.passed
    assert not ready.gatekeeper.nothing_landed()
    amend(ready, revoke("ana"))
    run = await go_on(ready)
    assert run.status == "SUCCESS"
    assert run.landed is not None
    assert run.landed.found
    approved_words(tmp_path)


async def test_the_lists_show_that_an_approval_has_lapsed(ready: Inbox) -> None:
    amend(ready, remove("ana"))
    assert (await go_on(ready)).parked
    listed = await ready.service.listed(codec.encode(ApprovalsRequest(run_id=RUN)))
    assert [each.status for each in listed.approvals] == ["lapsed", "pending"]
