"""What a bundle says of a request that was handed on: checked again offline, also against one who has the gatekeeper's key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from gatewright.contracts import ApprovalDecision, codec
from gatewright.contracts.people.approvals import ApprovalRequest, RosterKey, RosterPerson, SignedDecision
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.run import events as e
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh
from tests.evidence.approved_runs import ANA, RULE, SECRET, ApprovedRun, as_it_is, decided
from tests.evidence.test_approvals import sealed, verified

BENS, CARLS = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
BEN = RosterPerson(name="ben", keys=(RosterKey(key=public_line(BENS)),))
CARL = RosterPerson(name="carl", keys=(RosterKey(key=public_line(CARLS)),))
HANDED = replace(RULE, approvers=("ana", "ben"))
Made = Callable[[ApprovalRequest], e.ApprovalDecided]


def to_ben(request: ApprovalRequest, to: str = "ben", delegate: RosterPerson | None = BEN) -> e.ApprovalDecided:
    """Ana hands it on: what she signed, and what the ledger tells of it."""
    said = {"verdict": "delegate", "person": "ana", "decided_at": request.created_at, "delegate_to": to}
    data = codec.encode(decision_on(request, **said))
    signed = SignedDecision(document=data.decode(), signature=sign_ssh(SECRET, NAMESPACE, data))
    return replace(decided(request), verdict="delegate", signed=signed, delegate=delegate)


def by_ben(request: ApprovalRequest, **told: RosterPerson) -> e.ApprovalDecided:
    """Ben's yes."""
    print_of = fingerprint(public_line(BENS))
    return replace(decided(request, BENS, person="ben"), **{"approver": BEN, "fingerprint": print_of, **told})


def by_ana(request: ApprovalRequest) -> e.ApprovalDecided:
    return decided(request)


def make_handed(first: Made = to_ben, second: Made = by_ben) -> ApprovedRun:
    """A run whose request Ana hands to Ben, who approves it."""
    run = ApprovedRun(forgery=as_it_is, rule=HANDED)
    run.up_to_the_request()
    (asked,) = run.run.approvals.values()
    run.step(e.LabelledEvent(first(asked.request)))
    run.step(
        *run.held_where_it_counts(),
        e.LabelledEvent(second(asked.request)),
        run.gate("approval"),
        e.LabelledEvent(e.StateEntered(state="S4")),
    )
    run.finish()
    return run


async def test_a_delegated_request_verifies_and_names_both_people(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    found = await verified(make_handed(), tmp_path, signer, private_key)
    assert found.findings == ()
    handed, approved = found.approved
    assert handed.startswith("ana (SHA256:")
    assert "handed on landing to ben at" in handed
    assert approved.startswith("ben (SHA256:")


async def test_the_bundle_holds_the_signed_delegation_and_the_delegate(tmp_path: Path, signer: Signer) -> None:
    bundle = await sealed(make_handed(), tmp_path, signer)
    (folder,) = bundle.glob("approvals/*")
    signed = codec.decode((folder / "decision-001.json").read_bytes(), ApprovalDecision)
    assert (signed.verdict, signed.person, signed.delegate_to) == ("delegate", "ana", "ben")
    assert (folder / "decision-001.delegate.json").read_bytes().strip() == codec.encode(BEN)
    assert not (folder / "decision-002.delegate.json").exists()


FORGERIES: dict[str, tuple[Made, Made]] = {
    "to another person than was signed": (lambda request: to_ben(request, delegate=CARL), by_ben),
    "to a person whom the roster has not": (lambda request: to_ben(request, delegate=None), by_ben),
    "to a person whom the rule does not name": (lambda request: to_ben(request, "carl", CARL), by_ben),
    "to oneself": (lambda request: to_ben(request, "ana", ANA), by_ben),
    "a yes of who has handed it on": (to_ben, by_ana),
    "handed on twice": (to_ben, to_ben),
    "a yes beside which a delegate is told": (to_ben, lambda request: by_ben(request, delegate=CARL)),
    "a yes that is told as another's": (to_ben, lambda request: by_ben(request, approver=ANA, delegate=BEN)),
}


@pytest.mark.parametrize(("first", "second"), FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_delegation_can_be_made_up(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, first: Made, second: Made
) -> None:
    found = await verified(make_handed(first, second), tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}
