"""A lost bundle made again from the ledger: the same bytes as the first time, or a plain no."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.app.replay.rebuild import rebuild
from gatewright.errors import ArtifactError, ConfigurationError, MalformedError, VerificationError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import Sealed
from gatewright.run import events as e
from gatewright.secrets.scanner import SecretScanner
from tests.evidence.recorded_runs import MAKERS, RecordedRun
from tests.evidence.tampering import files_of
from tests.replay.conftest import MakeBus

SCANNER = SecretScanner()


@pytest.mark.parametrize("name", MAKERS)
async def test_what_comes_out_is_the_lost_bundle_byte_for_byte(
    sealed_bundles: dict[str, Path],
    recorded_runs: dict[str, RecordedRun],
    make_bus: MakeBus,
    signer: Signer,
    tmp_path: Path,
    name: str,
) -> None:
    bus = await make_bus(recorded_runs[name])
    sealed = await rebuild(bus, recorded_runs[name].run_id, tmp_path, signer, SCANNER)
    original, again = sealed_bundles[name], Path(sealed.location)
    assert files_of(again) == files_of(original)
    assert [(again / path).read_bytes() for path in files_of(again)] == [
        (original / path).read_bytes() for path in files_of(original)
    ]
    assert verify(again, [signer.public]).ok
    assert [path.name for path in tmp_path.iterdir()] == [recorded_runs[name].run_id]


async def test_a_bundle_that_is_there_is_never_touched(
    recorded_runs: dict[str, RecordedRun], make_bus: MakeBus, signer: Signer, tmp_path: Path
) -> None:
    run = recorded_runs["success"]
    (tmp_path / run.run_id).mkdir()
    (tmp_path / run.run_id / "mine").write_text("mine")
    with pytest.raises(MalformedError, match="is there already") as caught:
        await rebuild(await make_bus(run), run.run_id, tmp_path, signer, SCANNER)
    assert caught.value.reason == "bundle_exists"
    assert (tmp_path / run.run_id / "mine").read_text() == "mine"


async def test_an_unknown_run_and_an_open_one_have_no_bundle(make_bus: MakeBus, signer: Signer, tmp_path: Path) -> None:
    run = RecordedRun()
    run.accept()
    bus = await make_bus(run)
    for run_id, code in ((run.run_id, "run_not_ended"), ("run-unknown0", "run_unknown")):
        with pytest.raises(MalformedError) as caught:
            await rebuild(bus, run_id, tmp_path, signer, SCANNER)
        assert caught.value.reason == code
    assert list(tmp_path.iterdir()) == []


async def test_another_key_cannot_make_it_again(make_bus: MakeBus, signer: Signer, tmp_path: Path) -> None:
    run = MAKERS["success"]()
    run.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="0" * 64, signer=signer.key_id, location="gone")))
    stranger = Signer(keys.create(tmp_path / "stranger.pem"))
    with pytest.raises(ConfigurationError) as caught:
        await rebuild(await make_bus(run), run.run_id, tmp_path / "runs", stranger, SCANNER)
    assert caught.value.reason == "key_differs"


async def test_other_bytes_than_those_that_were_sealed_are_not_left_behind(
    make_bus: MakeBus, signer: Signer, tmp_path: Path
) -> None:
    run = MAKERS["success"]()
    run.step(e.LabelledEvent(e.BundleSealed(manifest_sha256="0" * 64, signer=signer.key_id, location="gone")))
    with pytest.raises(VerificationError) as caught:
        await rebuild(await make_bus(run), run.run_id, tmp_path, signer, SCANNER)
    assert caught.value.reason == "rebuild_differs"
    assert list(tmp_path.iterdir()) == []


async def test_a_sealed_run_comes_out_with_the_digest_that_the_ledger_holds(
    make_bus: MakeBus, signer: Signer, tmp_path: Path
) -> None:
    run = MAKERS["failed"]()
    first = await _sealed_by(run, make_bus, signer, tmp_path / "first")
    run.step(e.LabelledEvent(e.BundleSealed(manifest_sha256=first.manifest_sha256, signer=signer.key_id, location="gone")))
    again = await rebuild(await make_bus(run), run.run_id, tmp_path / "again", signer, SCANNER)
    assert again.manifest_sha256 == first.manifest_sha256


async def test_a_lost_artifact_of_the_gatekeeper_is_reported(make_bus: MakeBus, signer: Signer, tmp_path: Path) -> None:
    run = MAKERS["success"]()
    assert run.run.candidate
    del run.store.blobs[run.run.candidate.patch]
    with pytest.raises(ArtifactError):
        await rebuild(await make_bus(run), run.run_id, tmp_path, signer, SCANNER)
    assert list(tmp_path.iterdir()) == []


async def _sealed_by(run: RecordedRun, make_bus: MakeBus, signer: Signer, root: Path) -> Sealed:
    return await rebuild(await make_bus(run), run.run_id, root, signer, SCANNER)
