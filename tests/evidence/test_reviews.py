"""What a bundle says about votes: checked again offline, also against one who has the gatekeeper's key."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.people.approvals import ApprovalRule, SignedDecision
from gatewright.contracts.people.review_votes import ConsensusReceipt, OwnedPaths, ReviewQuorum, ReviewVote, VoteColour
from gatewright.contracts.reports import RuleOutcome
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.rules.quorum import ROLE_VOTER
from gatewright.run import events as e
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh
from tests.evidence.approved_runs import ANA, SECRET, ApprovedRun, Forgery, as_it_is

QUORUM = ReviewQuorum(domain=("ana",), quality=("@qa",), reviewers=2)
RULE = ApprovalRule(name="review", reason="review", risk="medium", approvers=("ana",), within_seconds=600, quorum=QUORUM)
RECEIPT = ConsensusReceipt(green=(ROLE_VOTER, "ana"), yellow=())


def make_reviewed(forgery: Forgery = as_it_is, colour: VoteColour = "green", anchor: str = "tests:1") -> ApprovedRun:
    """Ana's vote makes the consensus with the role reviewer's report; then it lands."""
    run = ApprovedRun(forgery=forgery, rule=RULE)
    run.up_to_the_request()
    (asked,) = run.run.approvals.values()
    vote = ReviewVote(colour=colour, scope=("all",), rationale="read", evidence=(anchor,))
    said = decision_on(asked.request, verdict="vote", person="ana", decided_at=asked.request.created_at, vote=vote)
    data = codec.encode(said)
    event = e.ApprovalDecided(
        request_id=asked.request.request_id,
        verdict="vote",
        signed=SignedDecision(document=data.decode(), signature=sign_ssh(SECRET, NAMESPACE, data)),
        fingerprint=fingerprint(public_line(SECRET)),
        approver=ANA,
        roster_sha256="9" * 64,
        consensus=RECEIPT,
    )
    run.step(e.LabelledEvent(event), run.gate("approval"), e.LabelledEvent(e.StateEntered(state="S4")))
    run.finish()
    return run


async def verified(run: ApprovedRun, folder: Path, signer: Signer, key: PrivateKey) -> Verification:
    written = await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)
    return verify(Path(written.location), [key.public])


async def test_a_reviewed_run_verifies_and_names_each_vote(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    found = await verified(make_reviewed(), tmp_path, signer, private_key)
    assert found.findings == ()
    (words,) = found.approved
    assert "voted green on review" in words


def more_green_than_there_was(payload: e.RunEvent) -> e.RunEvent:
    if isinstance(payload, e.ApprovalDecided):
        return replace(payload, consensus=replace(RECEIPT, green=(ROLE_VOTER, "ana", "ben")))
    return payload


def another_quorum(payload: e.RunEvent) -> e.RunEvent:
    if isinstance(payload, e.RunAccepted):
        return replace(payload, approval_rules=(replace(RULE, quorum=replace(QUORUM, reviewers=3)),))
    return payload


@pytest.mark.parametrize(
    ("forgery", "colour", "anchor"),
    [
        (more_green_than_there_was, "green", "tests:1"),
        (another_quorum, "green", "tests:1"),
        (as_it_is, "red", "tests:1"),
        (as_it_is, "green", "patch:nowhere.py:1"),
        (as_it_is, "green", "tests:99"),
    ],
    ids=["invented-voter", "too-few", "red-as-consensus", "no-such-line", "no-such-command"],
)
async def test_a_consensus_that_the_votes_do_not_make_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery, colour: VoteColour, anchor: str
) -> None:
    found = await verified(make_reviewed(forgery, colour, anchor), tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}


def by_owner(payload: e.RunEvent) -> e.RunEvent:
    """The rule goes by owner, and all that is changed is Ana's."""
    if isinstance(payload, e.RunAccepted):
        quorum = replace(QUORUM, domain=("ben",), by_owner=True, owners=(OwnedPaths(line=1, pattern="*", owners=("ana",)),))
        return replace(payload, approval_rules=(replace(RULE, quorum=quorum),))
    return payload


def by_owner_and_named(payload: e.RunEvent) -> e.RunEvent:
    """And the gate has found that."""
    if isinstance(payload, e.GateJudged) and payload.report.gate == "integrated":
        asks = RuleOutcome(rule=f"{e.ASKS}owners:1", verdict="PASS", detail="* of ana: src/a.py")
        return replace(payload, report=replace(payload.report, rules=(*payload.report.rules, asks)))
    return by_owner(payload)


async def test_owners_whose_votes_were_wanted_are_those_of_the_files(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    honest = await verified(make_reviewed(by_owner_and_named), tmp_path / "honest", signer, private_key)
    assert honest.findings == ()
    found = await verified(make_reviewed(by_owner), tmp_path / "forged", signer, private_key)
    assert any(each.code == "change_contradicts" and "file of owners" in each.message for each in found.findings)
