"""Bundles of runs that a merge queue landed: they verify, and none with another receipt does, however well it is signed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.contracts import codec
from gatewright.evidence import layout
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.queue.receipt import read_receipt
from tests.evidence.queue_landings import RUNS, Landings, landings
from tests.evidence.tampering import put, remake_manifest, sign_again
from tests.queue.tampered_receipts import TAMPERED

__all__ = ["landings"]


def codes(found: Verification) -> set[str]:
    return {finding.code for finding in found.findings}


@pytest.mark.every_case
@pytest.mark.parametrize("name", ["before", RUNS[0], RUNS[-1], "after"])
def test_a_bundle_of_a_queued_run_verifies_with_and_without_its_repository(landings: Landings, name: str) -> None:
    bundle = landings.bundles[name]
    assert verify(bundle, [landings.key]).ok
    found = verify(bundle, [landings.key], landings.repository)
    assert (found.ok, codes(found)) == (True, set())
    assert found.checked[-1].endswith("repository")


def test_runs_of_one_push_have_one_receipt_of_three_positions(landings: Landings) -> None:
    receipts = {(landings.bundles[name] / layout.QUEUE_RECEIPT).read_bytes() for name in RUNS}
    (document,) = map(read_receipt, receipts)
    assert [len(each.runs) for each in document.positions] == [2, 2, 2]
    assert [each.outcome for each in document.positions] == ["untested", "untested", "passed"]


def test_the_same_receipt_put_in_again_and_signed_again_is_accepted(landings: Landings, tmp_path: Path) -> None:
    """The control of the tests below: nothing but the receipt makes them refuse."""
    bundle = landings.copy(RUNS[0], tmp_path)
    found = landings.with_receipt(bundle, (bundle / layout.QUEUE_RECEIPT).read_bytes())
    assert (found.ok, codes(found)) == (True, set())


@pytest.mark.every_case
@pytest.mark.parametrize("kind", TAMPERED)
def test_a_tampered_receipt_under_a_good_signature_is_refused(landings: Landings, kind: str, tmp_path: Path) -> None:
    tamper, pointer = TAMPERED[kind]
    bundle = landings.copy(RUNS[0], tmp_path)
    document = read_receipt((bundle / layout.QUEUE_RECEIPT).read_bytes())
    found = landings.with_receipt(bundle, codec.encode(tamper(document)))
    words = [finding.message for finding in found.findings if finding.code == "receipt_contradicts"]
    assert any(each.startswith(pointer) for each in words), found.findings
    assert not found.ok


@pytest.mark.every_case
@pytest.mark.parametrize("other", ["before", "after"])
def test_a_receipt_copied_from_another_landing_is_refused(landings: Landings, other: str, tmp_path: Path) -> None:
    copy = (landings.bundles[other] / layout.QUEUE_RECEIPT).read_bytes()
    assert "receipt_contradicts" in codes(landings.with_receipt(landings.copy(RUNS[0], tmp_path), copy))
    assert "receipt_contradicts" in codes(
        landings.with_receipt(landings.copy(other, tmp_path), (landings.bundles[RUNS[0]] / layout.QUEUE_RECEIPT).read_bytes())
    )


def test_a_receipt_that_nothing_signs_again_is_found_by_its_digest(landings: Landings, tmp_path: Path) -> None:
    bundle = landings.copy(RUNS[0], tmp_path)
    put(bundle / layout.QUEUE_RECEIPT, (landings.bundles["after"] / layout.QUEUE_RECEIPT).read_bytes())
    assert codes(verify(bundle, [landings.key])) & {"digest_differs", "size_differs"}


def test_a_bundle_without_its_receipt_does_not_verify(landings: Landings, tmp_path: Path) -> None:
    bundle = landings.copy(RUNS[0], tmp_path)
    (bundle / layout.QUEUE_RECEIPT).unlink()
    remake_manifest(bundle)
    sign_again(bundle, landings.signer)
    assert "receipt_missing" in codes(verify(bundle, [landings.key]))
