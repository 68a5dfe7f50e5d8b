"""Decisions by passkey, honest and forged, against a whole gatekeeper: what does not count lands nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.contracts.people.approvals import SignedDecision
from gatewright.errors import ConfigurationError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from gatewright.rules.grants import GRANT_NAMESPACE
from gatewright.services.gatekeeper.policies.approval_policy import read_roster
from gatewright.ssh_signatures import public_line
from tests.attacks.people import KEYS, LANDING, Inbox, open_inbox, roster, signed
from tests.gatekeeper.publishing import HandClock
from tests.git.repositories import MakeRepository
from tests.passkeys import ORIGIN, SoftwarePasskey

PASSKEY, LOST = SoftwarePasskey(), SoftwarePasskey()
#: A key for pages that a person of the roster has as one for ssh.
AS_A_TOKEN = SoftwarePasskey("ssh:")


def people() -> Any:
    """Ana has a passkey beside her key, and one that she lost; Ben has a key alone."""
    document: Any = roster()
    lost = {**LOST.entry, "revoked_at": "2026-01-01T00:00:00+00:00"}
    document["people"][0]["keys"] += [PASSKEY.entry, lost, {"key": AS_A_TOKEN.line}]
    return document


@pytest.fixture
async def inbox(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Inbox]:
    async with open_inbox(make_repository(), tmp_path, LANDING, clock=HandClock(), people=people()) as opened:
        await opened.to_the_candidate()
        yield opened


async def test_a_passkey_lands_what_was_approved_and_the_bundle_verifies_offline(inbox: Inbox, tmp_path: Path) -> None:
    await inbox.decide(PASSKEY.signed(await inbox.said()))
    run = await inbox.run()
    assert (run.status, inbox.gatekeeper.nothing_landed()) == ("SUCCESS", False)
    bundle = tmp_path / "runs" / run.run_id
    found = verify(bundle, [keys.load(tmp_path / "key.pem").public])
    assert found.findings == ()
    (words,) = found.approved
    assert f"by passkey on {ORIGIN}" in words


async def refused(inbox: Inbox, decision: SignedDecision) -> str:
    before = await inbox.run()
    with pytest.raises(GatewrightError) as refusal:
        await inbox.decide(decision)
    after = await inbox.run()
    assert (after.seq, after.state, inbox.gatekeeper.nothing_landed()) == (before.seq, before.state, True)
    return refusal.value.reason


async def test_what_does_not_count_changes_nothing(inbox: Inbox) -> None:
    said = await inbox.said()
    honest = PASSKEY.signed(said)
    other = PASSKEY.signed(replace(said, verdict="reject"))
    forged = {
        "another page": (PASSKEY.signed(said, origin="https://console.example.com"), "passkey_origin_differs"),
        "a person who was not recognised": (PASSKEY.signed(said, flags=0x01), "passkey_person_unverified"),
        "the answer to another challenge": (replace(honest, signature=other.signature), "signature_invalid"),
        "another tree under it": (PASSKEY.signed(replace(said, candidate_tree="f" * 40)), "approval_other_subject"),
        "another run": (PASSKEY.signed(replace(said, run_id="run-of-others")), "run_unknown"),
        "another purpose": (PASSKEY.signed(said, GRANT_NAMESPACE), "signature_invalid"),
        "a lost passkey": (LOST.signed(said), "approver_key_revoked"),
        "a passkey that is on no roster": (SoftwarePasskey().signed(said), "approver_unknown"),
        "in the name of another": (PASSKEY.signed(replace(said, person="ben")), "approver_differs"),
        "the same key for another relying party": (
            SoftwarePasskey("example.org", ORIGIN, PASSKEY.secret).signed(said),
            "approver_unknown",
        ),
    }
    for name, (decision, code) in forged.items():
        assert await refused(inbox, decision) == code, name
    await inbox.decide(honest)
    with pytest.raises(GatewrightError) as replayed:
        await inbox.decide(honest)
    assert replayed.value.reason == "approval_decided"


async def test_a_passkey_that_is_revoked_while_the_run_waits_counts_no_more(inbox: Inbox, tmp_path: Path) -> None:
    decision = PASSKEY.signed(await inbox.said())
    document: Any = roster()
    document["people"][0]["keys"].append({**PASSKEY.entry, "revoked_at": "2026-01-01T00:00:00+00:00"})
    (tmp_path / "policies" / "approvers.json").write_text(json.dumps(document))
    assert await refused(inbox, decision) == "approver_key_revoked"


async def test_a_key_for_ssh_still_counts_beside_it(inbox: Inbox) -> None:
    await inbox.decide(signed(await inbox.said()))
    assert (await inbox.run()).status == "SUCCESS"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"key": PASSKEY.line}, "a passkey needs them"),
        ({"key": public_line(KEYS["ana"]), "origins": [ORIGIN]}, "origins belong to a passkey"),
        ({"key": AS_A_TOKEN.line, "origins": [ORIGIN]}, "origins belong to a passkey"),
        ({"key": PASSKEY.line, "origins": ["https://example.org"]}, "does not sign on pages of"),
        ({"key": PASSKEY.line, "origins": [f"{ORIGIN}.evil.org"]}, "does not sign on pages of"),
        ({"key": PASSKEY.line, "origins": ["https://evilconsole.example.org"]}, "does not sign on pages of"),
        ({"key": PASSKEY.line, "origins": ["http://console.example.org"]}, "origins"),
        ({"key": PASSKEY.line, "origins": ["http://localhost.evil.org"]}, "origins"),
        ({"key": PASSKEY.line, "origins": [f"{ORIGIN}/path"]}, "origins"),
    ],
)
def test_a_roster_with_a_passkey_for_foreign_pages_is_refused(entry: dict[str, object], words: str) -> None:
    data = json.dumps({"version": "1", "people": [{"name": "ana", "keys": [entry]}]}).encode()
    with pytest.raises(ConfigurationError, match=words):
        read_roster(Path("approvers.json"), data)


def test_one_passkey_belongs_to_one_person() -> None:
    person = {"keys": [PASSKEY.entry]}
    data = json.dumps({"version": "1", "people": [{"name": "ana", **person}, {"name": "ben", **person}]}).encode()
    with pytest.raises(ConfigurationError, match="listed twice"):
        read_roster(Path("approvers.json"), data)
