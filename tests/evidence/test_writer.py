"""The writer survives a crash at every step, never vouches for half a bundle, and always comes out with the same bytes."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from pathlib import Path

import pytest

from gatewright.contracts import codec
from gatewright.errors import ArtifactError, MalformedError, UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.signing.keys import PrivateKey
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.conftest import MakeBundle
from tests.evidence.crashing_disk import CrashingDisk, Loss, PowerCutError
from tests.evidence.recorded_runs import RecordedRun, make_failed, make_success


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def modes_of(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def lines_of(recorded: RecordedRun) -> bytes:
    return b"".join(codec.encode(record) + b"\n" for record in recorded.records)


def folder_of(root: Path, recorded: RecordedRun) -> Path:
    return root / recorded.run_id


async def seal(root: Path, recorded: RecordedRun, signer: Signer, disk: CrashingDisk | None = None) -> Path:
    sealed = await BundleWriter(root, disk).seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    return Path(sealed.location)


async def test_events_are_on_disk_after_every_step(tmp_path: Path) -> None:
    recorded, writer = make_success(), BundleWriter(tmp_path)
    written = b""
    for transition in recorded.transitions:
        assert await writer.append(recorded.run, transition.events)
        written += b"".join(codec.encode(record) + b"\n" for record in transition.events)
        assert (folder_of(tmp_path, recorded) / "events.jsonl").read_bytes() == written


async def test_an_append_is_synced_before_it_returns(tmp_path: Path) -> None:
    recorded, disk = make_success(), CrashingDisk()
    await BundleWriter(tmp_path, disk).append(recorded.run, recorded.records)
    folder = folder_of(tmp_path, recorded)
    assert disk.trail[-2:] == [("append", (folder / "events.jsonl",)), ("sync", (folder, tmp_path))]


async def test_appending_twice_writes_once(tmp_path: Path) -> None:
    recorded = make_success()
    writer = BundleWriter(tmp_path)
    for _ in range(2):
        for other in (writer, BundleWriter(tmp_path)):
            assert await other.append(recorded.run, recorded.records)
    assert (folder_of(tmp_path, recorded) / "events.jsonl").read_bytes() == lines_of(recorded)


@pytest.mark.parametrize("torn", [b"", b"{", b'{"seq":1}\n', b"\0" * 300, b"not json\nnor this\n"])
async def test_a_torn_end_is_repaired(tmp_path: Path, torn: bytes) -> None:
    recorded = make_success()
    first, *rest = recorded.transitions
    await BundleWriter(tmp_path).append(recorded.run, first.events)
    path = folder_of(tmp_path, recorded) / "events.jsonl"
    path.write_bytes(path.read_bytes() + torn)
    writer = BundleWriter(tmp_path)
    for transition in rest:
        assert await writer.append(recorded.run, transition.events)
    assert path.read_bytes() == lines_of(recorded)


@pytest.mark.parametrize("cut", range(1, 400, 40))
async def test_a_log_cut_anywhere_is_completed_from_the_ledger(tmp_path: Path, cut: int) -> None:
    recorded = make_success()
    await BundleWriter(tmp_path).append(recorded.run, recorded.records)
    path = folder_of(tmp_path, recorded) / "events.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert await BundleWriter(tmp_path).append(recorded.run, recorded.records)
    assert path.read_bytes() == lines_of(recorded)


async def test_events_after_a_gap_are_left_to_the_seal(tmp_path: Path, signer: Signer) -> None:
    recorded, writer = make_success(), BundleWriter(tmp_path)
    first, _, third, *_ = recorded.transitions
    assert await writer.append(recorded.run, first.events)
    path = folder_of(tmp_path, recorded) / "events.jsonl"
    before = path.read_bytes()
    assert not await writer.append(recorded.run, third.events)
    assert path.read_bytes() == before
    await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    assert path.read_bytes() == lines_of(recorded)


async def test_the_log_of_another_run_with_this_id_is_begun_anew(tmp_path: Path) -> None:
    old, new = RecordedRun(), make_failed()
    old.accept(requested_by="somebody else")
    old.plan()
    await BundleWriter(tmp_path).append(old.run, old.records)
    path = folder_of(tmp_path, old) / "events.jsonl"
    for transition in new.transitions[1:]:
        assert not await BundleWriter(tmp_path).append(new.run, transition.events)
    assert path.read_bytes() == lines_of(old)
    assert await BundleWriter(tmp_path).append(new.run, new.records)
    assert path.read_bytes() == lines_of(new)


async def test_processes_that_append_at_once_do_not_write_twice(tmp_path: Path) -> None:
    recorded = make_success()
    writers = [BundleWriter(tmp_path) for _ in range(8)]
    await asyncio.gather(*(writer.append(recorded.run, recorded.records) for writer in writers))
    assert (folder_of(tmp_path, recorded) / "events.jsonl").read_bytes() == lines_of(recorded)


async def test_the_seal_is_never_appended(tmp_path: Path) -> None:
    recorded, writer = make_success(), BundleWriter(tmp_path)
    await writer.append(recorded.run, recorded.records)
    before = lines_of(recorded)
    recorded.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="0" * 64, signer="key", location="/srv")))
    assert await writer.append(recorded.run, recorded.transitions[-1].events)
    assert (folder_of(tmp_path, recorded) / "events.jsonl").read_bytes() == before


async def test_sealing_again_gives_the_same_bytes_and_the_same_answer(tmp_path: Path, signer: Signer) -> None:
    recorded, writer = make_success(), BundleWriter(tmp_path)
    first = await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    before = bytes_of(Path(first.location))
    recorded.step(e.LabelledEvent(e.BundleSealed(manifest_sha256=first.manifest_sha256, signer=first.signer, location="/srv")))
    assert await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences) == first
    assert bytes_of(Path(first.location)) == before


async def test_a_lost_bundle_is_made_again_byte_for_byte(tmp_path: Path, signer: Signer, private_key: PrivateKey) -> None:
    recorded = make_success()
    live = BundleWriter(tmp_path / "live")
    for transition in recorded.transitions:
        await live.append(recorded.run, transition.events)
    sealed = await live.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    before = bytes_of(Path(sealed.location))
    shutil.rmtree(sealed.location)
    again = await seal(tmp_path / "elsewhere", recorded, Signer(private_key))
    assert bytes_of(again) == before


async def test_what_does_not_belong_there_is_gone_after_the_seal(
    tmp_path: Path, signer: Signer, sealed_bundles: dict[str, Path]
) -> None:
    recorded = make_failed()
    folder = folder_of(tmp_path, recorded)
    secret = tmp_path / "secret"
    secret.write_text("kept")
    (folder / "reports").mkdir(parents=True)
    (folder / "stray.txt").write_text("x")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_text("x")
    (folder / "patch.diff").symlink_to(secret)
    (folder / "trace").symlink_to(tmp_path)
    (folder / "meta.json").mkdir()
    (folder / "meta.json" / "inner").write_text("x")
    (folder / "git").write_text("a file in the place of a folder")
    (folder / "manifest.json").symlink_to(secret)
    os.link(secret, folder / "reports" / "task_result.json")
    os.mkfifo(folder / "reports" / "pipe")
    assert bytes_of(await seal(tmp_path, recorded, signer)) == bytes_of(sealed_bundles["failed"])
    assert secret.read_text() == "kept"


async def test_files_are_read_only_and_the_folder_can_be_removed(tmp_path: Path, signer: Signer) -> None:
    recorded, writer = make_failed(), BundleWriter(tmp_path)
    await writer.append(recorded.run, recorded.records)
    folder = Path((await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)).location)
    assert modes_of(folder) == {0o444}
    shutil.rmtree(folder)


async def test_the_manifest_comes_after_everything_else_is_durable(tmp_path: Path, signer: Signer) -> None:
    disk = CrashingDisk()
    folder = await seal(tmp_path, make_success(), signer, disk)
    rename = next(index for index, (name, _) in enumerate(disk.trail) if name == "rename")
    synced = {path for name, paths in disk.trail[:rename] if name == "sync" for path in paths}
    assert {path for path in folder.rglob("*") if path.name != layout.MANIFEST} | {folder} <= synced
    assert folder / ".manifest.json.draft" in synced
    assert disk.trail[rename + 1 :] == [("sync", (folder, tmp_path))]


@pytest.mark.parametrize("loss", ["kept", "halved", "gone"])
@pytest.mark.long
async def test_a_crash_at_any_step_of_the_seal_is_made_good(
    tmp_path: Path, signer: Signer, private_key: PrivateKey, sealed_bundles: dict[str, Path], loss: Loss
) -> None:
    recorded, whole = make_failed(), bytes_of(sealed_bundles["failed"])
    for steps in range(1000):
        root = tmp_path / str(steps)
        await BundleWriter(root).append(recorded.run, recorded.records[:5])
        try:
            folder = await seal(root, recorded, signer, CrashingDisk(steps, loss))
        except PowerCutError:
            folder = folder_of(root, recorded)
            if (folder / layout.MANIFEST).exists():
                assert verify(folder, [private_key.public]).ok, steps
            assert bytes_of(await seal(root, recorded, signer, CrashingDisk())) == whole, steps
        else:
            assert steps > 40
            assert bytes_of(folder) == whole
            return
        shutil.rmtree(root)
    pytest.fail("the seal never ended")


@pytest.mark.parametrize("loss", ["kept", "halved", "gone"])
@pytest.mark.long
async def test_a_crash_at_any_step_of_an_append_is_made_good(tmp_path: Path, loss: Loss) -> None:
    recorded = make_failed()
    for steps in range(1, 100):
        root = tmp_path / str(steps)
        writer = BundleWriter(root, CrashingDisk(steps, loss))
        try:
            for transition in recorded.transitions:
                await writer.append(recorded.run, transition.events)
        except PowerCutError:
            again = BundleWriter(root)
            assert await again.append(recorded.run, recorded.records)
        path = folder_of(root, recorded) / "events.jsonl"
        assert path.read_bytes() == lines_of(recorded)
        if steps > len(recorded.transitions) * 2 + 2:
            return


@pytest.mark.long
async def test_a_crash_during_repair_leaves_no_manifest_of_tampered_files(
    make_bundle: MakeBundle, tmp_path: Path, signer: Signer, private_key: PrivateKey, sealed_bundles: dict[str, Path]
) -> None:
    recorded = make_failed()
    bundle = make_bundle("failed")
    root = tmp_path / "root"
    for steps in range(1000):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(bundle, folder_of(root, recorded))
        (folder_of(root, recorded) / "meta.json").unlink()
        (folder_of(root, recorded) / "patch.diff").unlink()
        try:
            folder = await seal(root, recorded, signer, CrashingDisk(steps, "halved"))
        except PowerCutError:
            folder = folder_of(root, recorded)
            if steps > 1 and (folder / layout.MANIFEST).exists():
                assert verify(folder, [private_key.public]).ok, steps
        else:
            assert bytes_of(folder) == bytes_of(sealed_bundles["failed"])
            return


async def test_an_open_run_is_not_sealed(tmp_path: Path, signer: Signer) -> None:
    recorded = RecordedRun()
    recorded.accept()
    with pytest.raises(MalformedError):
        await seal(tmp_path, recorded, signer)
    assert bytes_of(tmp_path) == {}


async def test_nothing_is_sealed_while_an_artifact_of_the_gatekeepers_own_is_away(tmp_path: Path, signer: Signer) -> None:
    recorded = make_success()
    blobs, recorded.store.blobs = recorded.store.blobs, {}
    with pytest.raises(ArtifactError):
        await seal(tmp_path, recorded, signer)
    assert bytes_of(tmp_path) == {}
    recorded.store.blobs = blobs
    await seal(tmp_path, recorded, signer)


async def test_a_disk_that_refuses_is_named(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "runs").write_text("a file in the place of the folder")
    recorded = make_success()
    writer = BundleWriter(tmp_path / "runs")
    for attempt in (
        writer.append(recorded.run, recorded.records),
        writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences),
    ):
        with pytest.raises(UnavailableError) as caught:
            await attempt
        assert caught.value.reason == "bundle_unwritable"
