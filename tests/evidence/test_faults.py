"""kill -9 at every flush, and disks without room: the bundle is whole, or says that it is not, and nothing is half signed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gatewright.errors import UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from tests.evidence import killed_writer
from tests.evidence.full_disk import FullDisk
from tests.evidence.recorded_runs import RecordedRun, make_failed
from tests.evidence.test_writer import bytes_of, folder_of, lines_of
from tests.series import lengths

PROJECT = Path(__file__).parents[2]
#: Names that must not be there when a bundle could not be finished.
VOUCHING = (layout.MANIFEST, *layout.ENVELOPES)
#: Of the steps at which something goes wrong, one in so many.
EVERY = pytest.mark.parametrize("every", lengths(5, 1))


def run_program(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A Python program that may import the tests."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment)


def check_unfinished(folder: Path, recorded: RecordedRun, key: keys.PublicKey) -> bool:
    """Whether the bundle is whole; when it is not, it says so, and what is there of the events is a true beginning."""
    found = verify(folder, [key])
    if found.ok:
        return True
    assert not (folder / layout.MANIFEST).exists()
    assert "not_sealed" in {finding.code for finding in found.findings} or not folder.exists()
    events = (folder / layout.EVENTS).read_bytes() if (folder / layout.EVENTS).exists() else b""
    whole = events[: events.rfind(b"\n") + 1]
    assert lines_of(recorded).startswith(whole)
    return False


@pytest.mark.long
@EVERY
def test_a_kill_at_any_fsync_leaves_a_complete_or_marked_bundle(
    tmp_path: Path, signer: Signer, private_key: keys.PrivateKey, sealed_bundles: dict[str, Path], every: int
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(keys.private_pem(private_key))
    key.chmod(0o600)
    command = [sys.executable, str(killed_writer.__file__), str(tmp_path / "runs"), str(key)]
    flushes = int(run_program(command).stdout)
    recorded, whole = make_failed(), bytes_of(sealed_bundles["failed"])
    assert flushes > len(recorded.transitions) + 3
    states = []
    for number in range(1, flushes + 1, every):
        for moment in ("before", "after"):
            root = tmp_path / "runs" / f"{number}-{moment}"
            states.append(check_unfinished(folder_of(root, recorded), recorded, private_key.public))
            sealing = BundleWriter(root).seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
            asyncio.run(sealing)
            assert bytes_of(folder_of(root, recorded)) == whole, (number, moment)
    assert states == sorted(states)
    assert {False, True} == set(states)


@EVERY
async def test_a_full_disk_leaves_no_signature_and_delays_the_bundle(
    tmp_path: Path, signer: Signer, private_key: keys.PrivateKey, sealed_bundles: dict[str, Path], every: int
) -> None:
    recorded, whole = make_failed(), bytes_of(sealed_bundles["failed"])
    for steps in range(0, 1000, every):
        root, disk = tmp_path / str(steps), FullDisk(steps)
        writer, folder = BundleWriter(root, disk), folder_of(root, recorded)
        refusal: UnavailableError | None = None
        try:
            await writer.append(recorded.run, recorded.records[:5])
            await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
        except UnavailableError as error:
            refusal = error
        if refusal is None:
            assert steps > 30
            return
        assert refusal.reason == "bundle_unwritable"
        assert "No space left on device" in refusal.message
        assert not [name for name in VOUCHING if (folder / name).exists()], steps
        disk.make_room()
        await writer.append(recorded.run, recorded.records)
        await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
        assert bytes_of(folder) == whole, steps
        assert verify(folder, [private_key.public]).ok
        shutil.rmtree(root)
    pytest.fail("there was never room enough")


async def test_a_full_disk_does_not_spoil_a_bundle_that_is_sealed_again(
    tmp_path: Path, signer: Signer, private_key: keys.PrivateKey
) -> None:
    recorded, disk = make_failed(), FullDisk(1_000_000)
    writer = BundleWriter(tmp_path, disk)
    await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    disk.steps = 0
    with pytest.raises(UnavailableError):
        await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
    assert verify(folder_of(tmp_path, recorded), [private_key.public]).ok


def test_a_file_size_limit_is_handled_like_a_full_disk(tmp_path: Path) -> None:
    """RLIMIT_FSIZE in a process of its own: a real refusal of the kernel's, in the middle of a write."""
    program = """
import asyncio, resource, signal, sys
from pathlib import Path
from gatewright.errors import UnavailableError
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import make_failed
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
run = make_failed()
try:
    asyncio.run(BundleWriter(Path(sys.argv[1])).append(run.run, run.records))
except UnavailableError as error:
    print(error.reason)
"""
    recorded = make_failed()
    assert run_program([sys.executable, "-c", program, str(tmp_path)]).stdout == "bundle_unwritable\n"
    asyncio.run(BundleWriter(tmp_path).append(recorded.run, recorded.records))
    assert (folder_of(tmp_path, recorded) / layout.EVENTS).read_bytes() == lines_of(recorded)


@pytest.mark.parametrize("size", ["8k", "64k", "128k"])
def test_a_small_file_system_that_is_really_full(tmp_path: Path, private_key: keys.PrivateKey, size: str) -> None:
    """A tmpfs of its own, in namespaces of its own: full it refuses, remounted larger it takes the bundle."""
    key = tmp_path / "key.pem"
    key.write_bytes(keys.private_pem(private_key))
    key.chmod(0o600)
    place = tmp_path / "small"
    place.mkdir()
    program = f"""
import asyncio, subprocess, sys
from pathlib import Path
from gatewright.errors import UnavailableError
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import make_success
place, signer, run = Path(sys.argv[1]), Signer(keys.load(Path(sys.argv[2]))), make_success()
writer = BundleWriter(place)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size={size}", "tmpfs", str(place)], check=True)
try:
    asyncio.run(writer.seal(run.run, run.transitions, run.store, signer))
except UnavailableError as error:
    print(error.reason, [name for name in {VOUCHING!r} if (place / run.run_id / name).exists()])
# Not with the options that it has: they name the owner by a number that is none in here.
larger = ["mount", "--options-source", "disable", "-t", "tmpfs", "-o", "remount,size=16m", "tmpfs", str(place)]
subprocess.run(larger, check=True)
asyncio.run(writer.seal(run.run, run.transitions, run.store, signer))
print(verify(place / run.run_id, [signer.public]).ok)
"""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable, "-c", program, str(place), str(key)]
    if subprocess.run([*command[:4], "true"], capture_output=True, check=False).returncode:
        pytest.skip("this host gives no mount namespace to its users")
    assert run_program(command).stdout.splitlines() == ["bundle_unwritable []", "True"]
