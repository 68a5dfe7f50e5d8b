"""Decisions that are forged, borrowed, late, replayed or about something else: refused by their codes, and nothing lands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.identities import STANDING
from gatewright.bus.permissions import access_of
from gatewright.bus.subjects import matches
from gatewright.bus.topology import APPROVER_SUBJECTS
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.contracts.vocabulary import Person
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.ssh_signatures import public_line, sign_ssh
from tests.attacks.people import KEYS, LANDING, WEEK, Inbox, open_inbox, roster, signed
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

OTHER_TREE = "f" * 40


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Inbox]:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=clock) as opened:
        yield opened


async def test_an_honest_approval_lands_what_was_approved(inbox: Inbox) -> None:
    run = await inbox.to_the_candidate()
    assert run.state == "AWAITING_APPROVAL"
    assert inbox.gatekeeper.nothing_landed()
    reply = await inbox.decide(signed(await inbox.said()))
    run = await inbox.run()
    assert [each.person for each in reply.recorded] == ["ana"]
    assert (run.status, inbox.gatekeeper.nothing_landed()) == ("SUCCESS", False)


async def refused(inbox: Inbox, *decisions: SignedDecision) -> str:
    """The code for which decisions are refused; nothing has happened to the run then."""
    before = await inbox.run()
    with pytest.raises(GatewrightError) as refusal:
        await inbox.decide(*decisions)
    after = await inbox.run()
    assert (after.seq, after.state) == (before.seq, before.state)
    assert inbox.gatekeeper.nothing_landed()
    return refusal.value.reason


async def test_a_decision_about_another_tree_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    other = replace(await inbox.said(), candidate_tree=OTHER_TREE)
    assert await refused(inbox, signed(other)) == "approval_other_subject"


async def test_a_decision_about_another_contract_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    other = replace(await inbox.said(), contract_sha256="e" * 64)
    assert await refused(inbox, signed(other)) == "approval_other_subject"


async def test_a_decision_about_another_wording_of_the_request_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    other = replace(await inbox.said(), request_sha256="e" * 64)
    assert await refused(inbox, signed(other)) == "approval_other_request"


async def test_a_decision_that_gives_itself_more_time_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    other = replace(await inbox.said(), expires_at="2099-01-01T00:00:00.000Z")
    assert await refused(inbox, signed(other)) == "approval_other_request"


async def test_a_decision_about_another_run_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    said = await inbox.said()
    elsewhere = replace(said, run_id="run-elsewhere0000")
    assert await refused(inbox, signed(elsewhere)) == "run_unknown"
    borrowed = replace(said, request_id="run-elsewhere0000.ask.1")
    assert await refused(inbox, signed(borrowed)) == "approval_unknown"


async def test_a_decision_that_is_sent_again_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    decision = signed(await inbox.said())
    await inbox.decide(decision)
    before = (await inbox.run()).seq
    with pytest.raises(GatewrightError) as refusal:
        await inbox.decide(decision)
    assert refusal.value.reason == "approval_decided"
    assert (await inbox.run()).seq == before


async def test_a_decision_that_comes_too_late_is_refused(inbox: Inbox, clock: HandClock) -> None:
    await inbox.to_the_candidate()
    decision = signed(await inbox.said())
    clock.seconds += WEEK + 1
    assert await refused(inbox, decision) == "approval_expired"


async def test_a_decision_with_a_revoked_key_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await inbox.said(), "old")) == "approver_key_revoked"


async def test_a_key_that_is_revoked_while_the_run_waits_counts_no_more(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.to_the_candidate()
    people = json.loads(json.dumps(roster()))
    people["people"][0]["keys"][0]["revoked_at"] = "2026-01-01T00:00:00+00:00"
    (tmp_path / "policies" / "approvers.json").write_text(json.dumps(people))
    assert await refused(inbox, signed(await inbox.said())) == "approver_key_revoked"


async def test_a_roster_that_can_no_longer_be_read_lets_nothing_pass(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.to_the_candidate()
    (tmp_path / "policies" / "approvers.json").write_text("{}")
    assert await refused(inbox, signed(await inbox.said())) == "approvers_unusable"


async def test_the_requester_may_not_approve_their_own_run(inbox: Inbox) -> None:
    await inbox.to_the_candidate(author=Person(name="B. N.", email="ben@example.org"))
    assert await refused(inbox, signed(await inbox.said(person="ben"), "ben")) == "approval_of_own_run"


async def test_the_requester_may_reject_their_own_run(inbox: Inbox) -> None:
    await inbox.to_the_candidate(author=Person(name="B. N.", email="ben@example.org"))
    await inbox.decide(signed(await inbox.said("reject", "ben", comment="not yet"), "ben"))
    run = await inbox.run()
    assert run.failure is not None
    assert (run.status, run.failure.code) == ("FAILED", "approval_rejected")
    assert inbox.gatekeeper.nothing_landed()


async def test_a_stranger_may_not_decide(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await inbox.said(), "eve")) == "approver_unknown"


async def test_a_person_cannot_sign_in_the_name_of_another(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await inbox.said(person="ana"), "ben")) == "approver_differs"


async def test_a_signature_that_was_made_for_something_else_does_not_count(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await inbox.said(), namespace="git")) == "signature_invalid"


async def test_the_signature_of_another_decision_does_not_count(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    no, yes = signed(await inbox.said("reject")), signed(await inbox.said())
    assert await refused(inbox, SignedDecision(document=yes.document, signature=no.signature)) == "signature_invalid"


async def test_a_decision_in_another_spelling_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    text = json.dumps(json.loads(signed(await inbox.said()).document), indent=1)
    spelled = SignedDecision(document=text, signature=sign_ssh(KEYS["ana"], NAMESPACE, text.encode()))
    assert await refused(inbox, spelled) == "approval_not_canonical"


async def test_a_roster_in_the_target_repository_is_nothing_but_a_file(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    forged = roster() | {"people": [{"name": "ana", "keys": [{"key": public_line(KEYS["eve"])}]}]}
    files = {f"{folder}approvers.json": json.dumps(forged).encode() for folder in ("", "policies/", ".gatewright/policies/")}
    repository = make_repository(files={**files, "README.md": b"text\n"})
    async with open_inbox(repository, tmp_path, LANDING, clock=clock) as inbox:
        await inbox.to_the_candidate()
        assert await refused(inbox, signed(await inbox.said(), "eve")) == "approver_unknown"


async def test_a_phrase_that_is_wrong_by_one_letter_is_refused(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rule = LANDING | {"phrase": "land on main"}
    async with open_inbox(make_repository(), tmp_path, rule, clock=clock) as inbox:
        await inbox.to_the_candidate()
        for phrase in ("", "land on mair", "Land on main", "land on main "):
            assert await refused(inbox, signed(await inbox.said(phrase=phrase))) == "approval_phrase_differs"
        await inbox.decide(signed(await inbox.said(phrase="land on main")))
        assert (await inbox.run()).status == "SUCCESS"


@pytest.mark.parametrize(
    ("second", "code"),
    [({"risk": "high"}, "batch_high_risk"), ({"batch": False}, "batch_not_allowed"), ({"batch": True}, "")],
    ids=["high-risk", "not-for-batches", "for-batches"],
)
async def test_a_batch_holds_only_what_may_be_decided_together(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock, second: dict[str, object], code: str
) -> None:
    rules = (LANDING | {"batch": True}, LANDING | {"name": "again"} | second)
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock) as inbox:
        await inbox.to_the_candidate()
        said = {"verdict": "approve", "person": "ana", "decided_at": "2026-01-01T00:00:00.000Z"}
        both = [signed(decision_on(await inbox.asked(number), **said)) for number in (0, 1)]
        if code:
            assert await refused(inbox, *both) == code
            return
        assert await refused(inbox, both[0], both[0]) == "approval_repeated"
        await inbox.decide(*both)
        assert (await inbox.run()).status == "SUCCESS"


async def test_one_bad_decision_of_a_batch_lets_none_count(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rules = (LANDING | {"batch": True}, LANDING | {"name": "again", "batch": True, "approvers": ["ben"]})
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock) as inbox:
        await inbox.to_the_candidate()
        said = {"verdict": "approve", "person": "ana", "decided_at": "2026-01-01T00:00:00.000Z"}
        both = [signed(decision_on(await inbox.asked(number), **said)) for number in (0, 1)]
        assert await refused(inbox, *both) == "approver_not_allowed"
        await inbox.decide(both[0])
        assert (await inbox.run()).state == "AWAITING_APPROVAL"  # the other is still waited for


async def test_of_two_contradicting_decisions_only_one_counts(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    yes, no = signed(await inbox.said()), signed(await inbox.said("reject", "ben"), "ben")
    outcomes = await asyncio.gather(inbox.decide(yes), inbox.decide(no), return_exceptions=True)
    refusals = [each.reason for each in outcomes if isinstance(each, GatewrightError)]
    assert refusals == ["approval_decided"]
    run = await inbox.run()
    (asked,) = run.approvals.values()
    assert (asked.status, run.status) in {("approved", "SUCCESS"), ("rejected", "FAILED")}
    position = await inbox.gatekeeper.orchestrator.ledger.get(run.run_id)
    told = [record.event_type for step in position.transitions for record in step.events]
    assert told.count("approval_decided") == 1


@pytest.mark.parametrize("identity", [name for name in STANDING if name not in {"approver", "gatekeeper"}])
def test_no_identity_but_the_approver_may_bring_a_decision(identity: str) -> None:
    sends = access_of(identity).sends()
    assert not any(matches(pattern, subject) for pattern in sends for subject in APPROVER_SUBJECTS)


def test_an_approver_may_do_nothing_else() -> None:
    access = access_of("approver")
    assert set(access.sends()) == set(APPROVER_SUBJECTS)
    assert access.receives() == ("_INBOX_approver.>",)


async def test_the_bundle_verifies_offline_and_names_approver_tree_and_time(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.to_the_candidate()
    await inbox.decide(signed(await inbox.said("comment", "ben", comment="looks right to me"), "ben"))
    await inbox.decide(signed(await inbox.said()))
    run = await inbox.run()
    bundle = tmp_path / "runs" / run.run_id
    verified = verify(bundle, [keys.load(tmp_path / "key.pem").public])
    assert verified.findings == ()
    (words,) = verified.approved
    assert run.candidate is not None
    assert words.startswith("ana (SHA256:")
    assert words.endswith(f"over tree {run.candidate.tree}")
    assert len(list(bundle.glob("approvals/*/*.sshsig"))) == 2
