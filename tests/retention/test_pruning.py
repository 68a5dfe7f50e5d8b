"""A crash at any step of removing leaves a whole bundle or a signed tombstone, and doing it again comes to the same end."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
from pathlib import Path

import pytest

from gatewright.app.retention.pruning import PruningDisk
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.tombstone import FILE, open_tombstone, read_tombstone, sign_tombstone
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from tests.evidence.crashing_disk import CrashingDisk, PowerCutError
from tests.retention.conftest import House
from tests.series import lengths


class CrashingPruning(CrashingDisk, PruningDisk):
    """A power cut at a chosen step of removing."""

    def unlink_in(self, folder: int, name: str) -> None:
        self._step("unlink_in", Path(name))
        super().unlink_in(folder, name)

    def remove_folder_in(self, folder: int, name: str) -> None:
        self._step("remove_folder_in", Path(name))
        super().remove_folder_in(folder, name)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_tombstone_describes_what_was_deleted(house: House) -> None:
    bundle = house.seal(1, "failed")
    before = verify(bundle, [house.key.public])
    files = bytes_of(bundle)
    assert house.collect() == {bundle.name: ""}
    found = read_tombstone(bundle, [house.key.public])
    assert found is not None
    stone, _ = found
    assert (stone.run_id, stone.status, stone.pruned_by) == (bundle.name, "FAILED", "operator")
    assert stone.manifest_sha256 == before.manifest_sha256
    after = verify(bundle, [house.key.public])
    assert (after.outcome, [finding.code for finding in after.findings]) == ("incomplete", ["pruned"])
    assert (after.run_id, after.status, after.signer) == (bundle.name, "FAILED", house.key.public.key_id)
    assert stone.size == sum(len(data) for path, data in files.items() if path not in layout.UNLISTED)
    assert stone.files == len(files.keys() - layout.UNLISTED)
    assert "100.0 days old" in stone.reason


def test_tombstone_is_checked_by_others_tools(house: House) -> None:
    import json

    from securesystemslib.dsse import Envelope

    bundle = house.seal(1)
    house.collect()
    envelope = Envelope.from_dict(json.loads((bundle / FILE).read_bytes()))
    envelope.verify([house.key.public.library_key()], 1)
    statement = json.loads(envelope.payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0]["name"] == "manifest.json"


@pytest.mark.long
@pytest.mark.parametrize("every", lengths(4, 1))
def test_power_cut_at_any_step_leaves_a_whole_bundle_or_a_tombstone(house: House, every: int) -> None:
    bundle = house.seal(1)
    safe = house.home / "safe"
    shutil.copytree(bundle, safe)
    counted = CrashingPruning()
    house.collector().carry_out(house.collector().plan(), house.signer, counted)
    total = len(counted.trail)
    assert total > 40
    whole, pruned = 0, 0
    for loss in ("kept", "halved", "gone"):
        for steps in range(0, total, every) if loss == "kept" else range(0, 6, every):
            shutil.rmtree(bundle)
            shutil.copytree(safe, bundle)
            with pytest.raises(PowerCutError):
                house.collector().carry_out(house.collector().plan(), house.signer, CrashingPruning(steps, loss))
            if verify(bundle, [house.key.public]).ok:
                assert bytes_of(bundle) == bytes_of(safe)
                whole += 1
            else:
                assert read_tombstone(bundle, [house.key.public]) is not None
                pruned += 1
            assert house.collect() in ({bundle.name: ""}, {})
            assert [path.name for path in bundle.iterdir()] == [FILE]
            assert read_tombstone(bundle, [house.key.public]) is not None
    assert whole >= 3
    assert pruned > 30 / every


def test_writer_that_holds_the_bundle_is_not_disturbed(house: House) -> None:
    bundle = house.seal(1)
    fd = os.open(bundle, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        assert house.collect() == {bundle.name: "bundle_busy"}
    finally:
        os.close(fd)
    assert verify(bundle, [house.key.public]).ok


def test_bundle_that_changed_since_the_plan_stays(house: House) -> None:
    bundle = house.seal(1)
    collector = house.collector()
    plan = collector.plan()
    shutil.rmtree(bundle)
    other = house.seal(2)
    other.rename(bundle)
    (done,) = collector.carry_out(plan, house.signer)
    assert done.code == "bundle_changed"
    assert (bundle / "patch.diff").exists()


def test_one_bundle_that_stays_does_not_keep_the_others(house: House) -> None:
    first, second = house.seal(1), house.seal(2)
    collector = house.collector()
    plan = collector.plan()
    shutil.rmtree(first)
    assert [done.code for done in collector.carry_out(plan, house.signer)] == ["bundle_changed", ""]
    assert [path.name for path in second.iterdir()] == [FILE]


def test_folder_swapped_for_a_link_while_removing_leads_nowhere(house: House, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("x")
    bundle = house.seal(1)

    class Swapping(PruningDisk):
        def unlink_in(self, folder: int, name: str) -> None:
            super().unlink_in(folder, name)
            swapped = bundle / "reports"
            if swapped.is_dir() and not swapped.is_symlink():
                swapped.rename(tmp_path / "moved")
                swapped.symlink_to(outside)

    house.collector().carry_out(house.collector().plan(), house.signer, Swapping())
    assert (outside / "precious.txt").read_text() == "x"


def test_gatekeeper_does_not_make_a_pruned_bundle_again(house: House) -> None:
    """It crashed after sealing and before the ledger knew; at its next start it seals once more."""
    bundle = house.seal(1)
    digest = verify(bundle, [house.key.public]).manifest_sha256
    house.collect()
    run = house.recorded(1)
    run.store.blobs.clear()
    sealed = asyncio.run(BundleWriter(house.root).seal(run.run, run.transitions, run.store, house.signer))
    assert [path.name for path in bundle.iterdir()] == [FILE]
    assert (sealed.manifest_sha256, sealed.location) == (digest, str(bundle))


def test_forged_tombstone_does_not_keep_a_bundle_from_being_written(house: House, tmp_path: Path) -> None:
    bundle = house.seal(1)
    house.collect()
    found = read_tombstone(bundle, [house.key.public])
    assert found is not None
    stone, _ = found
    stranger = Signer(keys.create(tmp_path / "stranger.pem"))
    (bundle / FILE).unlink()
    (bundle / FILE).write_bytes(sign_tombstone(stone, stranger))
    run = house.recorded(1)
    asyncio.run(BundleWriter(house.root).seal(run.run, run.transitions, run.store, house.signer))
    assert verify(bundle, [house.key.public]).ok


@pytest.mark.parametrize("change", ["flip", "cut", "link", "empty", "huge"])
def test_altered_tombstone_is_none(house: House, change: str) -> None:
    bundle = house.seal(1)
    house.collect()
    path = bundle / FILE
    data = path.read_bytes()
    path.unlink()
    match change:
        case "flip":
            path.write_bytes(data.replace(b"payload", b"pay1oad", 1))
        case "cut":
            path.write_bytes(data[:-1])
        case "link":
            (bundle / "other").write_bytes(data)
            path.symlink_to(bundle / "other")
        case "empty":
            path.write_bytes(b"")
        case "huge":
            path.write_bytes(data + b" " * 300_000)
    with pytest.raises((MalformedError, VerificationError)):
        read_tombstone(bundle, [house.key.public])
    result = verify(bundle, [house.key.public])
    assert not result.ok
    assert "pruned" not in {finding.code for finding in result.findings}


def test_tombstone_carried_to_another_bundle_is_refused(house: House) -> None:
    first, second = house.seal(1), house.seal(2, days_old=0)
    house.collect()
    shutil.copy(first / FILE, second / FILE)
    with pytest.raises(VerificationError) as refusal:
        read_tombstone(second, [house.key.public])
    assert refusal.value.reason == "other_run"
    assert house.actions()[second.name] == "keep"
    assert (second / "patch.diff").exists()


def test_tombstone_of_no_trusted_key_is_refused(house: House, tmp_path: Path) -> None:
    bundle = house.seal(1)
    house.collect()
    with pytest.raises(VerificationError) as refusal:
        open_tombstone((bundle / FILE).read_bytes(), [keys.create(tmp_path / "other.pem").public])
    assert refusal.value.reason == "untrusted_key"
