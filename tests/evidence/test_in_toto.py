"""The signed statements as others read them: the in-toto project's own types, and the commands in the documentation."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace as changed
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from securesystemslib.dsse import Envelope
from securesystemslib.signer import SSlibKey

from gatewright.evidence import layout
from gatewright.evidence.projection.history import ended_history, evidence_records
from gatewright.evidence.signing import keys
from gatewright.evidence.statement import make_statements
from gatewright.rules.policy_digest import policies_sha256
from gatewright.run import events as e
from tests.evidence.conftest import MakeBundle
from tests.evidence.recorded_runs import MAKERS, POLICIES, RecordedRun, make_success

SUMMARY = "https://slsa.dev/verification_summary/v1"
CHECKS = "https://in-toto.io/attestation/test-result/v0.1"


def event_of(bundle: Path, name: str, key: keys.PublicKey) -> Any:
    """What an envelope says, verified by securesystemslib alone."""
    envelope = Envelope.from_dict(json.loads((bundle / name).read_bytes()))
    envelope.verify([SSlibKey(key.key_id, "ed25519", "ed25519", {"public": key.raw.hex()})], 1)
    return json.loads(envelope.payload)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_in_toto_project_s_own_types_take_both_statements(
    sealed_bundles: dict[str, Path], private_key: keys.PrivateKey, name: str
) -> None:
    from google.protobuf import json_format
    from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
    from in_toto_attestation.predicates.vsa.v1 import vsa_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    kinds = {layout.ENVELOPE: (SUMMARY, vsa_pb2.VerificationSummary), layout.CHECKS: (CHECKS, test_result_pb2.TestResult)}
    for envelope, (kind, predicate_type) in kinds.items():
        payload = event_of(sealed_bundles[name], envelope, private_key.public)
        # Parsing refuses every field that the type does not have.
        statement = Statement.copy_from_pb(json_format.ParseDict(payload, statement_pb2.Statement()))
        statement.validate()
        assert statement.pb.predicate_type == kind
        fields = predicate_as_published(payload["predicate"])
        back = json_format.MessageToDict(json_format.ParseDict(fields, predicate_type()))
        assert same_times(back) == same_times({field: value for field, value in fields.items() if value != []})


def same_times(predicate: dict[str, Any]) -> dict[str, Any]:
    """``.000Z`` and ``Z`` are the same time."""
    return {field: datetime.fromisoformat(value) if field == "timeVerified" else value for field, value in predicate.items()}


def predicate_as_published(predicate: dict[str, Any]) -> dict[str, Any]:
    """A predicate as the published types have it: their summary lags behind the specification of SLSA in two places.

    There ``verifiedLevels`` is a list (in-toto/attestation issue 425) and ``verifier`` has a ``version``.
    """
    if "verifiedLevels" not in predicate:
        return predicate
    assert all(isinstance(level, str) for level in predicate["verifiedLevels"])
    return {
        **predicate,
        "verifiedLevels": " ".join(predicate["verifiedLevels"]),
        "verifier": {"id": predicate["verifier"]["id"]},
    }


def test_both_statements_name_commit_tree_patch_and_manifest(
    sealed_bundles: dict[str, Path], private_key: keys.PrivateKey
) -> None:
    bundle = sealed_bundles["success"]
    summary, checks = (event_of(bundle, name, private_key.public)["subject"] for name in layout.ENVELOPES)
    assert summary == checks
    assert {subject["name"]: subject["digest"] for subject in summary} == {
        **{
            path: {"sha256": hashlib.sha256((bundle / path).read_bytes()).hexdigest()}
            for path in ("manifest.json", "patch.diff")
        },
        "refs/heads/gatewright/run-a31d0eeaa8061bb92728": {"gitCommit": "4" * 40},
        "tree": {"gitTree": "3" * 40},
    }


def test_the_checks_name_each_gate_and_test_with_its_reference(
    sealed_bundles: dict[str, Path], private_key: keys.PrivateKey
) -> None:
    bundle = sealed_bundles["success"]
    predicate = event_of(bundle, layout.CHECKS, private_key.public)["predicate"]
    assert predicate["result"] == "PASSED"
    assert {"gate/policy", "gate/diff", "gate/tests", "acceptance/unit", "acceptance/lint"} <= set(predicate["passedTests"])
    assert predicate["warnedTests"] == predicate["failedTests"] == []
    contract = hashlib.sha256((bundle / layout.CONTRACT).read_bytes()).hexdigest()
    assert predicate["configuration"] == [
        {"name": "policies", "digest": {"sha256": policies_sha256(POLICIES, ())}, "uri": "urn:gatewright:policies"},
        *({"name": f"policies/{name}", "digest": {"sha256": digest}} for name, digest in sorted(POLICIES.items())),
        {"name": "contract.json", "digest": {"sha256": contract}},
    ]


@pytest.mark.parametrize(("name", "failed"), [("failed", ["gate/diff"]), ("unplanned", []), ("aborted", [])])
def test_checks_of_a_failed_run_fail_without_a_failed_check(
    sealed_bundles: dict[str, Path], private_key: keys.PrivateKey, name: str, failed: list[str]
) -> None:
    predicate = event_of(sealed_bundles[name], layout.CHECKS, private_key.public)["predicate"]
    assert (predicate["result"], predicate["failedTests"]) == ("FAILED", failed)


def checks_of(recorded: RecordedRun, **changes: object) -> Any:
    """The checks of a run whose second acceptance command was another one."""
    run = recorded.run
    assert run.tests
    first, second = run.tests.commands
    tests = replace(run.tests, commands=(first, replace(second, **changes)))
    history = ended_history(run, evidence_records(recorded.transitions))
    history = changed(history, run=replace(run, tests=tests))
    return json.loads(make_statements(history, b"{}", {})[layout.CHECKS])["predicate"]


def test_what_need_not_pass_and_did_not_only_warns() -> None:
    found = checks_of(make_success(), must_pass=False, exit_code=1)
    assert (found["result"], found["warnedTests"]) == ("WARNED", ["acceptance/lint"])


def test_what_passed_only_when_it_was_run_again_warns() -> None:
    found = checks_of(make_success(), run=2)
    assert (found["result"], found["warnedTests"]) == ("WARNED", ["acceptance/lint"])


@pytest.mark.parametrize("changes", [{"exit_code": 1}, {"timed_out": True}, {"stopped": "memory"}])
def test_a_failed_required_check_fails_whatever_the_run_claims(changes: dict[str, object]) -> None:
    found = checks_of(make_success(), **changes)
    assert (found["result"], found["failedTests"]) == ("FAILED", ["acceptance/lint"])


def test_a_gate_that_refused_once_does_not_pass_by_a_later_yes() -> None:
    recorded = make_success()
    *others, last = recorded.transitions
    recorded.transitions[:] = others
    recorded.step(recorded.gate("diff", code="path_out_of_scope"))
    recorded.step(recorded.gate("diff"))
    recorded.step(*(e.LabelledEvent(e.event_of(record), record.level, record.task_id) for record in last.events))
    history = ended_history(recorded.run, evidence_records(recorded.transitions))
    found = json.loads(make_statements(history, b"{}", {})[layout.CHECKS])["predicate"]
    assert (found["result"], found["failedTests"]) == ("FAILED", ["gate/diff"])


def documented(language: str) -> list[str]:
    words = (Path(__file__).parents[2] / "docs" / "verify.md").read_text(encoding="utf-8")
    section = words[words.index("Check it without Gatewright") :].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_the_documented_program_checks_a_bundle_without_gatewright(
    make_bundle: MakeBundle, private_key: keys.PrivateKey
) -> None:
    bundle = make_bundle("success")
    (program,) = documented("python")
    assert "gatewright" not in re.sub(r"gatekeeper|bundle", "", program)
    run_documented = [sys.executable, "-I", "-c", program]
    (bundle / "gatekeeper.pem.pub").write_bytes(private_key.public.pem())
    said = subprocess.run(run_documented, cwd=bundle, capture_output=True, text=True, check=True).stdout
    assert "refs/heads/gatewright/run-a31d0eeaa8061bb92728" in said
    assert "test-result" in said
    envelope = (bundle / layout.CHECKS).read_bytes()
    (bundle / layout.CHECKS).chmod(0o644)
    (bundle / layout.CHECKS).write_bytes(envelope.replace(b'"payload":"e', b'"payload":"f', 1))
    assert subprocess.run(run_documented, cwd=bundle, capture_output=True, check=False).returncode != 0


def test_the_documented_shell_lines_check_every_file(make_bundle: MakeBundle) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    (lines,) = documented("sh")
    bundle = make_bundle("success")
    good = subprocess.run(["bash", "-euo", "pipefail", "-c", lines], cwd=bundle, capture_output=True, text=True, check=True)
    assert hashlib.sha256((bundle / layout.MANIFEST).read_bytes()).hexdigest() in good.stdout
    (bundle / layout.PATCH).chmod(0o644)
    (bundle / layout.PATCH).write_bytes(b"forged\n")
    assert subprocess.run(["bash", "-euo", "pipefail", "-c", lines], cwd=bundle, capture_output=True, check=False).returncode
