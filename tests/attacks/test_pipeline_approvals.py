"""Changes of the pipeline: refused, unless a person has approved exactly this content, here, now, with a key that may."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace as changed
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.contracts import GateReport
from gatewright.evidence.approvals import APPROVAL, TO_APPROVE, ApprovedChange, ContentApproval, sign_approval
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from tests.attacks.real_gate import RealGate, artifact, codes, evidence, open_gate
from tests.git.repositories import MakeRepository

WORKFLOW = ".github/workflows/test.yml"
FILES = {WORKFLOW: b"on: push\n", "src/app.py": b"one\n"}
NEW = b"on: [push, pull_request]\n"
LATER = "2099-01-01T00:00:00.000Z"


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(files=FILES), tmp_path, allowed_paths=(".github", "src")) as opened:
        opened.gates = changed(opened.gates, approvers=lambda: (KEY.public,))
        yield opened


KEY, OTHER = keys.generate(), keys.generate()


async def judged(gate: RealGate, files: dict[str, bytes | None] | None = None, approval: bytes | None = None) -> GateReport:
    """Both gates' verdict on a change of the workflow, with ``approval`` among the inputs of the run."""
    if approval is not None:
        uri = await gate.bus.put_artifact(approval)
        contract = replace(gate.contract, inputs=replace(gate.contract.inputs, artifacts=(artifact(APPROVAL, uri),)))
        gate.run = replace(gate.run, contract=contract)
    patch = gate.patch(files or {WORKFLOW: NEW})
    gate.repository.git("reset", "--quiet", "--hard")
    return await gate.judged(await gate.worked(patch))


async def asked(gate: RealGate, files: dict[str, bytes | None] | None = None) -> ContentApproval:
    """The approval that the refusal asks for."""
    report = await judged(gate, files)
    assert codes(report) == ["path_protected"]
    found = [(seen.name.removeprefix(TO_APPROVE), seen.digest) for seen in report.evidence if seen.name.startswith(TO_APPROVE)]
    changes = tuple(ApprovedChange(path, *sides.split(" -> ")) for path, sides in found)
    return ContentApproval(
        "ci", gate.run.accepted.repository_url, changes, "A. Person", "pull requests too", LATER, "run-refused"
    )


async def test_without_an_approval_the_refusal_says_how_to_get_one(gate: RealGate) -> None:
    report = await judged(gate)
    assert codes(report) == ["path_protected"]
    assert report.violations[0].rule == "protected_paths.ci"
    assert "gatewright approve" in report.violations[0].detail


@pytest.mark.parametrize(
    "files",
    [{WORKFLOW: NEW}, {WORKFLOW: None}, {".gitlab-ci.yml": NEW}, {WORKFLOW: NEW, "src/app.py": b"two\n"}],
    ids=["changed", "deleted", "added", "with source"],
)
async def test_what_was_approved_is_let_in_and_named_in_the_evidence(
    files: dict[str, bytes | None], make_repository: MakeRepository, tmp_path: Path
) -> None:
    async with open_gate(make_repository(files=FILES), tmp_path, allowed_paths=(".github", ".gitlab-ci.yml", "src")) as gate:
        gate.gates = changed(gate.gates, approvers=lambda: (KEY.public,))
        approval = await asked(gate, files)
        report = await judged(gate, files, sign_approval(approval, Signer(KEY)))
    assert codes(report) == []
    (rule,) = [each for each in report.rules if each.rule == "protected_paths.ci.approval"]
    assert "A. Person" in rule.detail
    assert "pull requests too" in rule.detail
    assert len(evidence(report)[APPROVAL]) == 64


async def test_an_approval_by_a_key_that_may_not_counts_for_nothing(gate: RealGate) -> None:
    report = await judged(gate, approval=sign_approval(await asked(gate), Signer(OTHER)))
    assert codes(report) == ["path_protected"]
    assert "untrusted_key" in report.violations[0].detail


async def test_an_approval_that_was_changed_counts_for_nothing(gate: RealGate) -> None:
    approval = await asked(gate)
    envelope = msgspec.json.decode(sign_approval(approval, Signer(KEY)))
    for forged in (replace(approval, expires_at="2199-01-01T00:00:00.000Z"), replace(approval, approved_by="B. Person")):
        envelope["payload"] = msgspec.json.decode(sign_approval(forged, Signer(OTHER)))["payload"]
        report = await judged(gate, approval=msgspec.json.encode(envelope, order="sorted"))
        assert codes(report) == ["path_protected"]
        assert "bad_signature" in report.violations[0].detail


async def test_an_approval_of_other_content_does_not_cover_this_one(gate: RealGate) -> None:
    approval = sign_approval(await asked(gate), Signer(KEY))
    for files in ({WORKFLOW: b"on: push\nrun: curl evil.example\n"}, {".github/workflows/other.yml": NEW}, {WORKFLOW: None}):
        assert codes(await judged(gate, dict(files), approval)) == ["path_protected"]


async def test_an_approval_from_another_baseline_does_not_undo_what_came_between(
    make_repository: MakeRepository, tmp_path: Path
) -> None:
    repository = make_repository(files=FILES)
    async with open_gate(repository, tmp_path / "one", allowed_paths=(".github",)) as gate:
        approval = sign_approval(await asked(gate), Signer(KEY))
    repository.commit({WORKFLOW: b"on: push\npermissions: {}\n"})
    async with open_gate(repository, tmp_path / "two", allowed_paths=(".github",)) as gate:
        gate.gates = changed(gate.gates, approvers=lambda: (KEY.public,))
        assert codes(await judged(gate, None, approval)) == ["path_protected"]


@pytest.mark.parametrize(
    "fields",
    [
        {"repository": "/elsewhere"},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"expires_at": "2099-01-01"},
        {"expires_at": "never"},
    ],
)
async def test_an_approval_for_elsewhere_or_of_the_past_counts_for_nothing(fields: dict[str, str], gate: RealGate) -> None:
    approval = replace(await asked(gate), **fields)
    assert codes(await judged(gate, approval=sign_approval(approval, Signer(KEY)))) == ["path_protected"]


async def test_another_statement_that_the_same_key_signed_is_no_approval(gate: RealGate) -> None:
    approval = msgspec.json.decode(
        base64.b64decode(msgspec.json.decode(sign_approval(await asked(gate), Signer(KEY)))["payload"])
    )
    approval["predicateType"] = "https://slsa.dev/verification_summary/v1"
    report = await judged(gate, approval=Signer(KEY).envelope(msgspec.json.encode(approval)))
    assert codes(report) == ["path_protected"]
    assert "bad_approval" in report.violations[0].detail


async def test_bytes_that_are_no_approval_open_nothing(gate: RealGate) -> None:
    for data in (b"", b"{}", b"[" * 100_000, b"\xff" * 100, b"x" * (2 << 20)):
        report = await judged(gate, approval=data)
        assert codes(report) == ["path_protected"]


async def test_an_approval_opens_the_pipeline_and_nothing_else(gate: RealGate) -> None:
    approval = await asked(gate)
    blob = gate.repository.git("hash-object", "--stdin", stdin=b"X=1\n").decode().strip()
    wider = (*approval.changes, ApprovedChange("src/.env", "000000 " + "0" * 40, f"100644 {blob}"))
    report = await judged(
        gate, {WORKFLOW: NEW, "src/.env": b"X=1\n"}, sign_approval(replace(approval, changes=wider), Signer(KEY))
    )
    assert [violation.rule for violation in report.violations] == ["protected_paths.sacred"]
