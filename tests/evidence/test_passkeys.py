"""A run that was approved by a passkey: checked again offline, also against one who has the gatekeeper's key."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.people.approvals import RosterKey, RosterPerson
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.run import events as e
from gatewright.ssh_signatures import fingerprint
from tests.evidence.approved_runs import ApprovedRun, Forgery, as_it_is
from tests.openssh_account import needs_account
from tests.passkeys import ORIGIN, SoftwarePasskey

PASSKEY = SoftwarePasskey()
ANA = RosterPerson(name="ana", keys=(RosterKey(key=PASSKEY.line, origins=(ORIGIN,)),))


def approved(forgery: Forgery = as_it_is, **signed: object) -> ApprovedRun:
    """A run that Ana approves by passkey; ``signed`` is what differs where she signs."""
    run = ApprovedRun(forgery=forgery)
    run.up_to_the_request()
    (asked,) = run.run.approvals.values()
    said = {"verdict": "approve", "person": "ana", "decided_at": asked.request.created_at, "phrase": "land it"}
    event = e.ApprovalDecided(
        request_id=asked.request.request_id,
        verdict="approve",
        signed=PASSKEY.signed(decision_on(asked.request, **said), **signed),  # type: ignore[arg-type] # flags, or members
        fingerprint=fingerprint(PASSKEY.line),
        approver=ANA,
        roster_sha256="9" * 64,
    )
    run.step(e.LabelledEvent(event), run.gate("approval"), e.LabelledEvent(e.StateEntered(state="S4")))
    run.finish()
    return run


async def sealed(run: ApprovedRun, folder: Path, signer: Signer) -> Path:
    return Path((await BundleWriter(folder).seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


@needs_account
async def test_a_passkey_signature_verifies_and_openssh_agrees(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(approved(), tmp_path / "runs", signer)
    found = verify(bundle, [private_key.public])
    assert found.findings == ()
    assert f"by passkey on {ORIGIN}" in found.approved[0]
    (signature,) = bundle.glob("approvals/*/decision-001.sshsig")
    (tmp_path / "allowed").write_text(f"ana {PASSKEY.line}\n")
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(tmp_path / "allowed"), "-I", "ana", "-n", NAMESPACE, "-s", str(signature)]
    document = signature.with_suffix(".json").read_bytes()
    assert subprocess.run(argv, input=document, capture_output=True, check=False).returncode == 0


def other_origins(payload: e.RunEvent) -> e.RunEvent:
    """The recorded roster has another page than the one that was signed on."""
    if not isinstance(payload, e.ApprovalDecided):
        return payload
    key = replace(ANA.keys[0], origins=("https://other.example.org",))
    return replace(payload, approver=replace(ANA, keys=(key,)))


def no_passkey(payload: e.RunEvent) -> e.RunEvent:
    if not isinstance(payload, e.ApprovalDecided):
        return payload
    return replace(payload, approver=replace(ANA, keys=(replace(ANA.keys[0], origins=()),)))


FORGED: dict[str, tuple[Forgery, dict[str, object]]] = {
    "signed on another page": (as_it_is, {"origin": "https://evil.example.org"}),
    "the person was not recognised": (as_it_is, {"flags": 0x01}),
    "signed for something else": (as_it_is, {"namespace": "gatewright-grant-v1"}),
    "another challenge": (as_it_is, {"challenge": "AAAA"}),
    "a roster of other pages": (other_origins, {}),
    "a roster that has it as a key for ssh": (no_passkey, {}),
}


@pytest.mark.parametrize(("forgery", "signed"), FORGED.values(), ids=FORGED)
async def test_with_the_gatekeepers_key_no_approval_can_be_made_up(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery, signed: dict[str, object]
) -> None:
    bundle = await sealed(approved(forgery, **signed), tmp_path, signer)
    assert "approval_contradicts" in {each.code for each in verify(bundle, [private_key.public]).findings}
