"""What a manifest names: the six digests of the specification, second places as such, and the place in the ledger."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from gatewright.contracts import RunManifest, codec
from gatewright.evidence import layout
from gatewright.evidence.projection.manifest import LedgerSpan, span_of
from gatewright.evidence.projection.provenance import RunMeta, digest_of
from gatewright.run import events as e
from tests.evidence.recorded_runs import MAKERS, POLICIES, SURROUNDINGS, RecordedRun, make_success

RUN = "run-a31d0eeaa8061bb92728"
SIX = {
    *("contract.json", "events.jsonl", "patch.diff", "diff_name_only.txt"),
    *("reports/review_report.json", "reports/test_report.json"),
}


def manifest_of(bundle: Path) -> RunManifest:
    return codec.decode((bundle / layout.MANIFEST).read_bytes(), RunManifest)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_six_hashes_of_the_specification_are_always_there(sealed_bundles: dict[str, Path], name: str) -> None:
    bundle = sealed_bundles[name]
    hashes = manifest_of(bundle).evidence_hashes
    assert set(hashes) >= SIX
    assert hashes == {path: hashlib.sha256((bundle / path).read_bytes()).hexdigest() for path in hashes}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_repeated_file_is_identical_and_refers_to_the_first(sealed_bundles: dict[str, Path], name: str) -> None:
    bundle, manifest = sealed_bundles[name], manifest_of(sealed_bundles[name])
    assert manifest.integrity
    repeats = {file.path: file.same_as for file in manifest.integrity.files if file.same_as}
    assert {"git/patch.diff": "patch.diff", "git/diff_name_only.txt": "diff_name_only.txt"}.items() <= repeats.items()
    for path, first in repeats.items():
        assert (bundle / path).read_bytes() == (bundle / first).read_bytes()
        assert first not in repeats


def test_the_reports_of_the_run_are_those_of_its_last_attempt(sealed_bundles: dict[str, Path]) -> None:
    manifest = manifest_of(sealed_bundles["fixed"])
    assert manifest.integrity
    repeats = {file.path: file.same_as for file in manifest.integrity.files}
    assert repeats["reports/review_report.json"] == f"reviews/{RUN}.review.a2.json"
    assert repeats["reports/test_report.json"] == f"ci/{RUN}.test.a2.json"
    assert repeats[f"results/{RUN}.plan.w01/patch.diff"] == f"patches/{RUN}.plan.w01.diff"


def test_a_stand_in_repeats_nothing(sealed_bundles: dict[str, Path]) -> None:
    manifest = manifest_of(sealed_bundles["aborted"])
    assert manifest.integrity
    assert not [file for file in manifest.integrity.files if file.path.startswith("reports/") and file.same_as]


def test_the_place_in_the_ledger_ends_before_the_seal() -> None:
    recorded: RecordedRun = make_success()
    steps = len(recorded.transitions)
    recorded.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="0" * 64, signer="key", location="/srv")))
    sequences = [100 + 3 * number for number in range(steps + 1)]
    assert span_of(recorded.transitions, sequences) == LedgerSpan(steps, 100, 100 + 3 * (steps - 1))
    assert span_of(recorded.transitions, ()) == LedgerSpan(steps, None, None)


def test_the_surroundings_name_policies_host_and_everybody_who_acted(sealed_bundles: dict[str, Path]) -> None:
    bundle = sealed_bundles["success"]
    meta = json.loads((bundle / layout.META).read_bytes())
    assert meta["policies"] == POLICIES
    assert meta["host"] == {"system": "Linux", "machine": "x86_64"}
    acted = {entry["task_id"]: entry for entry in meta["acted"]}
    assert [entry["role"] for entry in meta["acted"]] == ["PM", "TECH_LEAD", "WORKER", "WORKER", "REVIEWER", "TEST_RUNNER"]
    assert all((bundle / entry["document"]).is_file() for entry in meta["acted"])
    worker = acted[f"{RUN}.plan.w01"]
    told = json.loads((bundle / worker["document"]).read_bytes())["surroundings"]
    assert worker["surroundings_sha256"] == digest_of(SURROUNDINGS)
    canonical = json.dumps(told, separators=(",", ":"), sort_keys=True).encode()
    assert worker["surroundings_sha256"] == hashlib.sha256(canonical).hexdigest()
    assert set(meta) <= set(RunMeta.__struct_fields__)
