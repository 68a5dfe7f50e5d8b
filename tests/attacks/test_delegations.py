"""Requests that are handed to another person: only to one who may decide them, and what was handed on is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from gatewright.contracts import ApprovalDecision, ApprovalsRequest, codec
from gatewright.contracts.vocabulary import Person
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.approvals import decision_on
from gatewright.rules.people.delegations import MOST_DELEGATIONS
from gatewright.ssh_signatures import public_line
from tests.attacks.people import KEYS, LANDING, WEEK, Inbox, open_inbox, roster, signed
from tests.attacks.test_approvals import refused
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository

#: People of the roster whom the rule names, and ``out``, whom it does not.
TEAM = [f"p{number}" for number in range(MOST_DELEGATIONS + 2)]
for name in (*TEAM, "out"):
    KEYS.setdefault(name, Ed25519PrivateKey.generate())


def people() -> dict[str, object]:
    known = roster()["people"]
    assert isinstance(known, list)
    team: list[dict[str, object]] = [{"name": name, "keys": [{"key": public_line(KEYS[name])}]} for name in (*TEAM, "out")]
    for each in team[:-1]:
        each["groups"] = ["release"]
    return {"version": "1", "people": [*known, *team]}


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path, clock: HandClock) -> AsyncIterator[Inbox]:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=clock, people=people()) as opened:
        yield opened


async def handed(inbox: Inbox, to: str = "ben", person: str = "ana") -> ApprovalDecision:
    return await inbox.said("delegate", person, delegate_to=to)


async def test_a_delegated_request_waits_for_the_delegates_approval(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.to_the_candidate()
    reply = await inbox.decide(signed(await handed(inbox)))
    assert [(each.verdict, each.state) for each in reply.recorded] == [("delegate", "AWAITING_APPROVAL")]
    (listed,) = (await inbox.service.listed(codec.encode(ApprovalsRequest(run_id=(await inbox.run()).run_id)))).approvals
    assert [(each.person, each.to) for each in listed.delegations] == [("ana", "ben")]
    assert listed.status == "pending"
    await inbox.decide(signed(await inbox.said("approve", "ben"), "ben"))
    run = await inbox.run()
    assert run.status == "SUCCESS"
    verified = verify(tmp_path / "runs" / run.run_id, [keys.load(tmp_path / "key.pem").public])
    assert verified.findings == ()
    assert [words.partition(" (")[0] for words in verified.approved] == ["ana", "ben"]
    assert "handed on landing to ben" in verified.approved[0]


@pytest.mark.parametrize(
    ("to", "code"),
    [
        ("zoe", "delegate_unknown"),
        ("out", "delegate_not_allowed"),
        ("ana", "delegate_not_allowed"),
        ("@release", "malformed"),
    ],
    ids=["not-on-the-roster", "not-of-the-rule", "oneself", "a-group"],
)
async def test_a_request_is_handed_only_to_another_person_who_may_decide_it(inbox: Inbox, to: str, code: str) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await handed(inbox, to))) == code


async def test_a_roster_in_the_target_repository_makes_no_delegate(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    forged = {"version": "1", "people": [{"name": "eve", "keys": [{"key": public_line(KEYS["eve"])}], "groups": ["release"]}]}
    repository = make_repository(files={"policies/approvers.json": json.dumps(forged).encode(), "README.md": b"text\n"})
    async with open_inbox(repository, tmp_path, LANDING, clock=clock) as inbox:
        await inbox.to_the_candidate()
        assert await refused(inbox, signed(await handed(inbox, "eve"))) == "delegate_unknown"


async def test_a_request_is_not_handed_to_who_made_the_change(inbox: Inbox) -> None:
    await inbox.to_the_candidate(author=Person(name="Ben", email="ben@example.org"))
    assert await refused(inbox, signed(await handed(inbox))) == "approval_of_own_run"


async def test_a_rule_can_allow_approving_your_own_run(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    async with open_inbox(make_repository(), tmp_path, LANDING | {"yourself": True}, clock=clock) as inbox:
        await inbox.to_the_candidate(author=Person(name="Ben", email="ben@example.org"))
        await inbox.decide(signed(await handed(inbox)))
        await inbox.decide(signed(await inbox.said("approve", "ben"), "ben"))
        assert (await inbox.run()).status == "SUCCESS"


async def test_a_person_hands_on_only_what_is_theirs_to_decide(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(await handed(inbox, person="out"), "out")) == "approver_not_allowed"
    assert await refused(inbox, signed(await handed(inbox), "eve")) == "approver_unknown"
    assert await refused(inbox, signed(await handed(inbox), "ben")) == "approver_differs"
    assert await refused(inbox, signed(await handed(inbox), "old")) == "approver_key_revoked"


async def test_a_delegated_request_is_final_for_the_delegator(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    first = signed(await handed(inbox))
    await inbox.decide(first)
    assert await refused(inbox, first) == "approval_handed_on"  # sent again, byte by byte
    for verdict in ("approve", "reject"):
        assert await refused(inbox, signed(await inbox.said(verdict))) == "approval_handed_on"
    assert await refused(inbox, signed(await handed(inbox, TEAM[0]))) == "approval_handed_on"
    assert await refused(inbox, signed(await handed(inbox, "ana", "ben"), "ben")) == "approval_handed_on"
    await inbox.decide(signed(await inbox.said("comment", comment="it is Ben's now")))
    assert (await inbox.run()).state == "AWAITING_APPROVAL"


async def test_a_chain_of_delegations_ends_at_its_bound(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    for number in range(MOST_DELEGATIONS):
        await inbox.decide(signed(await handed(inbox, TEAM[number + 1], TEAM[number]), TEAM[number]))
    last, beyond = TEAM[MOST_DELEGATIONS:]
    assert await refused(inbox, signed(await handed(inbox, beyond, last), last)) == "too_many_delegations"
    await inbox.decide(signed(await inbox.said("approve", last), last))
    assert (await inbox.run()).status == "SUCCESS"


async def test_nothing_is_delegated_after_the_deadline(inbox: Inbox, clock: HandClock) -> None:
    await inbox.to_the_candidate()
    before = await inbox.asked()
    late = signed(await handed(inbox, TEAM[0], "ben"), "ben")
    await inbox.decide(signed(await handed(inbox)))
    assert await inbox.asked() == before
    clock.seconds += WEEK + 1
    assert await refused(inbox, late) == "approval_expired"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"delegate_to": None}, "delegation_misplaced"),
        ({"verdict": "approve"}, "delegation_misplaced"),
        ({"verdict": "comment"}, "delegation_misplaced"),
        ({"candidate_tree": "f" * 40}, "approval_other_subject"),
        ({"request_sha256": "e" * 64}, "approval_other_request"),
        ({"expires_at": "2099-01-01T00:00:00.000Z"}, "approval_other_request"),
    ],
    ids=["to-none", "as-a-yes", "as-a-comment", "another-tree", "another-wording", "more-time"],
)
async def test_a_delegation_is_about_just_the_request_and_nothing_else(
    inbox: Inbox, changes: dict[str, str | None], code: str
) -> None:
    await inbox.to_the_candidate()
    assert await refused(inbox, signed(replace(await handed(inbox), **changes))) == code


async def test_a_delegation_whose_name_was_changed_after_signing_is_refused(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    honest = signed(await handed(inbox))
    assert (
        await refused(inbox, replace(honest, document=honest.document.replace('"ben"', f'"{TEAM[0]}"'))) == "signature_invalid"
    )


async def test_of_two_mutual_delegations_only_one_counts(inbox: Inbox) -> None:
    await inbox.to_the_candidate()
    to_ben, to_ana = signed(await handed(inbox)), signed(await handed(inbox, "ana", "ben"), "ben")
    outcomes = await asyncio.gather(inbox.decide(to_ben), inbox.decide(to_ana), return_exceptions=True)
    assert [each.reason for each in outcomes if isinstance(each, GatewrightError)] == ["approval_handed_on"]
    (asked,) = (await inbox.run()).approvals.values()
    assert len(asked.delegations) == 1


async def test_what_is_of_high_risk_is_handed_on_alone(
    make_repository: MakeRepository, tmp_path: Path, clock: HandClock
) -> None:
    rules = (LANDING | {"batch": True}, LANDING | {"name": "again", "risk": "high"})
    async with open_inbox(make_repository(), tmp_path, *rules, clock=clock) as inbox:
        await inbox.to_the_candidate()
        first = await handed(inbox)
        said = {"verdict": "delegate", "person": "ana", "decided_at": first.decided_at, "delegate_to": "ben"}
        second = decision_on(await inbox.asked(1), **said)
        assert await refused(inbox, signed(first), signed(second)) == "batch_high_risk"
