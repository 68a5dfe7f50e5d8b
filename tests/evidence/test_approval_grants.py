"""What a bundle says of a grant that answered in a person's place: checked again offline, also against the gatekeeper's key."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from gatewright.contracts import ApprovalGrant, codec
from gatewright.contracts.people.approvals import ApprovalRule, GrantBounds, SignedDecision
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.rules.approvals import NAMESPACE, MatchedRule, make_request
from gatewright.rules.grants import GRANT_NAMESPACE
from gatewright.run import events as e
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh
from tests.evidence.approved_runs import ANA, SECRET, STRANGER, ApprovedRun, Forgery, as_it_is
from tests.evidence.recorded_runs import START
from tests.evidence.test_approvals import verified

BOUNDS = GrantBounds(within_seconds=86_400, uses=3)
RULE = ApprovalRule(name="landing", reason="landing", risk="low", approvers=("ana",), within_seconds=600, grants=BOUNDS)
GRANT = ApprovalGrant(
    grant_id="grant-0123456789abcdef",
    repository="/srv/project",
    rule="landing",
    reason="landing",
    risk_at_most="low",
    paths=("src/",),
    person="ana",
    made_at="2026-01-02T00:00:00.000Z",
    not_after="2026-01-02T20:00:00.000Z",
    max_uses=2,
)


def by_grant(
    grant: ApprovalGrant = GRANT,
    *,
    secret: Ed25519PrivateKey = SECRET,
    namespace: str = GRANT_NAMESPACE,
    use: int = 1,
    revoked_at: str | None = None,
) -> e.ApprovalByGrant:
    data = codec.encode(grant)
    key = replace(ANA.keys[0], revoked_at=revoked_at)
    return e.ApprovalByGrant(
        request_id="",
        grant_id=GRANT.grant_id,
        signed=SignedDecision(document=data.decode(), signature=sign_ssh(secret, namespace, data)),
        fingerprint=fingerprint(public_line(SECRET)),
        approver=replace(ANA, keys=(key,)),
        roster_sha256="9" * 64,
        use=use,
    )


def make_granted(event: e.ApprovalByGrant, rule: ApprovalRule = RULE, forgery: Forgery = as_it_is) -> ApprovedRun:
    """One shard, which lands by a grant."""
    run = ApprovedRun(forgery=forgery, rule=rule)
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.pass_review()
    test = f"{run.run_id}.test.a1"
    run.step(run.tests(test), run.gate("tests", task_id=test))
    now = START + timedelta(seconds=len(run.transitions))
    request = make_request(run.run, MatchedRule(rule, f"it lands on refs/heads/gatewright/{run.run_id}"), 1, now)
    asked = e.LabelledEvent(e.ApprovalRequested(request=request))
    run.step(asked, e.LabelledEvent(replace_id(event, request.request_id)), run.gate("approval"))
    run.finish()
    return run


def replace_id(event: e.ApprovalByGrant, request_id: str) -> e.ApprovalByGrant:
    return replace(event, request_id=request_id)


async def test_a_run_landed_by_grant_verifies_and_names_its_owner(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    found = await verified(make_granted(by_grant()), tmp_path, signer, private_key)
    assert found.findings == ()
    (words,) = found.approved
    assert words.startswith("ana (SHA256:")
    assert words.endswith("grant-0123456789abcdef: run 1 of 2, until 2026-01-02T20:00:00.000Z")


FORGERIES = {
    "signed by a stranger": by_grant(secret=STRANGER),
    "signed as a decision": by_grant(namespace=NAMESPACE),
    "another repository": by_grant(replace(GRANT, repository="/srv/other")),
    "another rule": by_grant(replace(GRANT, rule="other")),
    "other paths": by_grant(replace(GRANT, paths=("elsewhere/",))),
    "paths in another case": by_grant(replace(GRANT, paths=("SRC/",))),
    "over before": by_grant(replace(GRANT, not_after="2026-01-02T03:00:00.000Z")),
    "not begun": by_grant(replace(GRANT, made_at="2026-01-02T12:00:00.000Z")),
    "longer than the rule lets it last": by_grant(replace(GRANT, not_after="2026-01-09T00:00:00.000Z")),
    "more uses than the rule lets it have": by_grant(replace(GRANT, max_uses=4)),
    "used once too often": by_grant(use=3),
    "used before the first": by_grant(use=0),
    "another id": by_grant(replace(GRANT, grant_id="grant-ffffffffffffffff")),
    "for moves of versions, and more was changed": by_grant(replace(GRANT, versions="patch")),
    "a key that was revoked before": by_grant(revoked_at="2020-01-01T00:00:00+00:00"),
}


@pytest.mark.parametrize("event", FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_grant_can_be_made_up(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, event: e.ApprovalByGrant
) -> None:
    found = await verified(make_granted(event), tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}


@pytest.mark.parametrize(
    "changes",
    [{"grants": None}, {"risk": "high"}, {"phrase": "land it"}, {"approvers": ("ben",)}],
    ids=["no-grants", "high-risk", "phrase", "others-asked"],
)
async def test_a_grant_counts_only_where_the_rule_of_the_run_lets_it(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, changes: dict[str, object]
) -> None:
    found = await verified(make_granted(by_grant(), replace(RULE, **changes)), tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}


async def test_a_move_of_versions_that_the_patch_does_not_make_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    def forged(payload: e.RunEvent) -> e.RunEvent:
        return replace(payload, versions="patch", changed_lines=2) if isinstance(payload, e.CandidateComposed) else payload

    run = make_granted(by_grant(replace(GRANT, versions="patch")), forgery=forged)
    assert "choice_contradicts" in {each.code for each in (await verified(run, tmp_path, signer, private_key)).findings}
