"""What a bundle says about people's decisions: checked again offline, also against one who has the gatekeeper's key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.approved_runs import ANA, RULE, STRANGER, ApprovedRun, Forgery, as_it_is, decided, make_approved
from tests.evidence.recorded_runs import TREE
from tests.evidence.tampering import CODES, KINDS, files_of


async def sealed(run: ApprovedRun, folder: Path, signer: Signer) -> Path:
    writer = BundleWriter(folder)
    return Path((await writer.seal(run.run, run.transitions, run.store, signer, run.sequences)).location)


async def verified(run: ApprovedRun, folder: Path, signer: Signer, key: PrivateKey) -> Verification:
    return verify(await sealed(run, folder, signer), [key.public])


async def test_an_approved_run_verifies_and_names_approver_time_and_tree(
    tmp_path: Path, signer: Signer, private_key: PrivateKey
) -> None:
    found = await verified(make_approved(), tmp_path, signer, private_key)
    assert found.findings == ()
    (words,) = found.approved
    assert words.startswith("ana (SHA256:")
    assert words.endswith(f"over tree {TREE}")


@pytest.mark.long
async def test_no_file_of_an_approval_can_be_changed(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    bundle = await sealed(make_approved(), tmp_path / "runs", signer)
    paths = [path for path in files_of(bundle) if path.startswith("approvals/")]
    assert sorted(path.rpartition("/")[2] for path in paths) == [
        "decision-001.approver.json",
        "decision-001.json",
        "decision-001.roster.txt",
        "decision-001.sshsig",
        "request.json",
    ]
    for kind, tamper in KINDS.items():
        for path in paths:
            copy = tmp_path / kind / bundle.name
            shutil.copytree(bundle, copy)
            if tamper(copy, path):
                codes = {each.code for each in verify(copy, [private_key.public]).findings if each.path == path}
                assert codes & CODES[kind], (kind, path)
            shutil.rmtree(copy)


def on(kind: type[e.RunEvent], change: Forgery) -> Forgery:
    return lambda payload: change(payload) if isinstance(payload, kind) else payload


def another_signer(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    run = make_approved()
    (asked,) = run.run.approvals.values()
    return decided(asked.request, STRANGER)


def another_tree(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    (asked,) = make_approved().run.approvals.values()
    return decided(asked.request, candidate_tree="f" * 40)


def wrong_phrase(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    (asked,) = make_approved().run.approvals.values()
    return decided(asked.request, phrase="land if")


def of_another_time(said: str) -> Forgery:
    def forge(payload: e.RunEvent) -> e.RunEvent:
        assert isinstance(payload, e.ApprovalDecided)
        (asked,) = make_approved().run.approvals.values()
        return decided(asked.request, decided_at=said)

    return on(e.ApprovalDecided, forge)


def a_rejection_as_a_yes(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    (asked,) = make_approved().run.approvals.values()
    return decided(asked.request, verdict="reject")


def a_revoked_key(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    key = replace(ANA.keys[0], revoked_at="2020-01-01T00:00:00+00:00")
    return replace(payload, approver=replace(ANA, keys=(key,)))


def another_orderer(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.RunAccepted)
    assert payload.request is not None
    return replace(payload, request=replace(payload.request, ordered_by=("Ana",)))


def ordered_by_ana(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.RunAccepted)
    return replace(payload, orderers=("ana",))


def of_no_known_person(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.RunAccepted)
    return replace(payload, orderers=())


def by_a_roster(**changes: object) -> Forgery:
    """What the gatekeeper says of the roster at the landing, changed."""
    return on(e.RosterHeld, lambda payload: replace(payload, **changes))


REVOKED = replace(ANA, keys=(replace(ANA.keys[0], revoked_at="2026-01-02T00:00:00+00:00"),))
LAPSED = e.LapsedWord(request_id="x", person="ana", fingerprint="x", code="approver_unknown", words="gone")


def easier_request(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalRequested)
    return replace(payload, request=replace(payload.request, phrase="", approvers=("eve",)))


def by_rule(payload: e.RunEvent) -> e.RunEvent:
    assert isinstance(payload, e.ApprovalDecided)
    return e.ApprovalByRule(request_id=payload.request_id, rule=RULE.name)


FORGERIES = {
    "the signature of a stranger": on(e.ApprovalDecided, another_signer),
    "a decision about another tree": on(e.ApprovalDecided, another_tree),
    "a phrase that differs": on(e.ApprovalDecided, wrong_phrase),
    "a no that is told as a yes": on(e.ApprovalDecided, a_rejection_as_a_yes),
    "a key that was revoked before": on(e.ApprovalDecided, a_revoked_key),
    "a decision of 1990": of_another_time("1990-01-01T00:00:00.000Z"),
    "a decision of 2099": of_another_time("2099-01-01T00:00:00.000Z"),
    "a decision at no time": of_another_time("this morning"),
    "an order that names another person": on(e.RunAccepted, another_orderer),
    "who ordered it approves it": on(e.RunAccepted, ordered_by_ana),
    "approved, and it is not known who ordered it": on(e.RunAccepted, of_no_known_person),
    "no roster was looked at as it landed": on(e.RosterHeld, lambda _: None),
    "she was not on the roster any more": by_a_roster(people=()),
    "her key was revoked by then": by_a_roster(people=(REVOKED,)),
    "another request counts no more": by_a_roster(lapsed=(LAPSED,)),
    "the request was open again": by_a_roster(reopened=("run-0123456789.ask.1",)),
    "a roster of another time": by_a_roster(at="2026-01-01T00:00:00.000Z"),
    "a roster of the future": by_a_roster(at="2099-01-01T00:00:00.000Z"),
    "a roster of no time": by_a_roster(at="then"),
    "a request that asks for less": on(e.ApprovalRequested, easier_request),
    "a rule that approves what it may not": on(e.ApprovalDecided, by_rule),
    "no answer at all": on(e.ApprovalDecided, lambda _: None),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES)
async def test_with_the_gatekeepers_key_no_approval_can_be_made_up(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery
) -> None:
    found = await verified(make_approved(forgery), tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}


async def test_a_request_and_its_answer_cannot_be_left_out(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    run = ApprovedRun()
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.pass_review()
    test = f"{run.run_id}.test.a1"
    run.step(run.tests(test), run.gate("tests", task_id=test))
    run.finish()
    found = await verified(run, tmp_path, signer, private_key)
    (finding,) = (each for each in found.findings if each.code == "approval_contradicts")
    assert "landed" in finding.message


async def test_a_parked_run_needs_a_rule_that_applies(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    run = make_approved(rule=replace(RULE, refs=("refs/heads/main",)))
    found = await verified(run, tmp_path, signer, private_key)
    assert "approval_contradicts" in {each.code for each in found.findings}


CLASS = replace(RULE, name="billing", reason="path_class", paths=("*",))


def a_class_more(payload: e.RunEvent) -> e.RunEvent:
    """Another rule names a class of all paths, and no gate has named it."""
    return replace(payload, approval_rules=(RULE, CLASS)) if isinstance(payload, e.RunAccepted) else payload


@pytest.mark.parametrize(
    ("forgery", "rule", "code"),
    [(a_class_more, RULE, "change_contradicts"), (as_it_is, replace(RULE, approvals=2), "approval_contradicts")],
    ids=["a hidden class", "one of two approvals"],
)
async def test_a_landing_without_the_people_of_a_class_is_found(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, forgery: Forgery, rule: ApprovalRule, code: str
) -> None:
    found = await verified(make_approved(forgery, rule), tmp_path, signer, private_key)
    assert code in {each.code for each in found.findings}
