"""Bundles of runs that a merge queue landed: they verify, and none with another receipt does, however well it is signed."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.contracts import codec
from gatewright.contracts.queue_policy import QueuePolicy, Window
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.findings import Verification
from gatewright.evidence.verification.verify import verify
from gatewright.queue.receipt import read_receipt
from gatewright.run.events import Landed
from tests.evidence.tampering import put, read_events, remake_manifest, sign_again, write_events
from tests.gatekeeper.queue.cluster import hurry, open_cluster
from tests.git.repositories import Repository
from tests.queue.tampered_receipts import TAMPERED

RUNS = tuple(f"run {number}" for number in range(6))
POLICY = QueuePolicy(batch_size=2, window=Window(start=3, least=3, most=3))


@dataclass(frozen=True)
class Landings:
    """Bundles by the name of their run: one push of six runs in three positions, and one before it and one after it."""

    bundles: dict[str, Path]
    signer: Signer
    key: keys.PublicKey
    repository: str

    def copy(self, name: str, folder: Path) -> Path:
        """A copy of a bundle, to change."""
        bundle = folder / self.bundles[name].name
        shutil.copytree(self.bundles[name], bundle)
        return bundle

    def with_receipt(self, bundle: Path, receipt: bytes) -> Verification:
        """Put another receipt in place, and everything that names it, signed by the gatekeeper's own key."""
        put(bundle / layout.QUEUE_RECEIPT, receipt)
        uri = f"artifact:sha256:{hashlib.sha256(receipt).hexdigest()}"
        records = [
            replace(each, payload={**each.payload, "receipt": uri}) if each.event_type == Landed.event_type else each
            for each in read_events(bundle)
        ]
        write_events(bundle, records, chained=True)
        remake_manifest(bundle)
        sign_again(bundle, self.signer)
        return verify(bundle, [self.key])


@pytest.fixture(scope="session")
def landings(tmp_path_factory: pytest.TempPathFactory, first_repository: Repository) -> Landings:
    folder = tmp_path_factory.mktemp("landings")

    async def land() -> dict[str, Path]:
        server = MemoryServer()
        await ensure_topology(MemoryBus(server))

        async def connect(_name: str) -> MemoryBus:
            return MemoryBus(server)

        async with open_cluster(connect, folder, copied(first_repository, folder), policy=POLICY) as cluster:
            await cluster.enqueue("before", {"before.txt": b"before"})
            await cluster.ended("before")
            await cluster.land_together(*RUNS)
            await cluster.enqueue("after", {"after.txt": b"after"})
            await cluster.ended("after")
            return {name: cluster.bundle(name) for name in ("before", *RUNS, "after")}

    with pytest.MonkeyPatch.context() as patched:
        hurry(patched.setattr)
        bundles = asyncio.run(land())
    private = keys.load(folder / "key.pem")
    return Landings(bundles, Signer(private), private.public, str(folder / "target.git"))


def copied(repository: Repository, folder: Path) -> Repository:
    path = folder / "source"
    shutil.copytree(repository.path, path, symlinks=True)
    return Repository(path, repository.home)


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
