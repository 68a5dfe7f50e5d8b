"""Keys over time: rotated keys still verify, a rotation cut short leaves whole keys, and mounted secrets are usable."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import durable_files, keyring, keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.verification.verify import verify
from gatewright.evidence.writer import BundleWriter
from tests.evidence.recorded_runs import make_failed

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def private_of(home: Path) -> Path:
    return keys.home_key(home)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


def test_a_new_ring_has_one_key_that_signs_and_verifies(home: Path) -> None:
    made = keyring.make(home, private_of(home))
    assert keyring.make(home, private_of(home)).public == made.public
    assert keyring.trusted_keys(home, private_of(home)) == [made.public]
    (known,) = keyring.known_keys(home, private_of(home))
    assert (known.key_id, known.state, known.retired) == (made.public.key_id, "signing", "")
    assert known.created
    assert modes(home)["gatekeeper.pem"] == 0o600


async def test_a_bundle_signed_before_a_rotation_verifies_after_it(home: Path, tmp_path: Path) -> None:
    recorded = make_failed()
    bundles = []
    for _ in range(3):
        signer = Signer(keyring.make(home, private_of(home)))
        writer = BundleWriter(tmp_path / signer.key_id)
        sealed = await writer.seal(recorded.run, recorded.transitions, recorded.store, signer, recorded.sequences)
        bundles.append(Path(sealed.location))
        keyring.rotate(home, private_of(home), NOW)
    trusted = keyring.trusted_keys(home, private_of(home))
    assert len(trusted) == 4
    assert all(verify(bundle, trusted).ok for bundle in bundles)
    states = [(key.state, bool(key.created), key.retired) for key in keyring.known_keys(home, private_of(home))]
    assert states == [("signing", True, ""), *[("retired", True, "2026-03-04T05:06:07.000Z")] * 3]


def test_a_rotation_keeps_the_old_private_key_unless_discarded(home: Path) -> None:
    first = keyring.make(home, private_of(home))
    old, new = keyring.rotate(home, private_of(home), NOW)
    kept = home / "keys" / "retired" / f"{old.key_id}.pem"
    assert old == first.public
    assert keys.load(kept).public == old
    assert keys.load(private_of(home)).public == new
    assert modes(home / "keys")[f"{old.key_id}.pem"] == modes(home / "keys")["gatekeeper.pem"] == 0o600
    keyring.rotate(home, private_of(home), NOW, discard=True)
    assert not (home / "keys" / "retired" / f"{new.key_id}.pem").exists()


class PowerCutError(Exception):
    """Not an OSError: nothing may catch it."""


@pytest.mark.parametrize("survived", range(6))
def test_an_interrupted_rotation_leaves_working_keys(home: Path, monkeypatch: pytest.MonkeyPatch, survived: int) -> None:
    first = keyring.make(home, private_of(home)).public
    left = [survived]

    def put(path: Path, data: bytes, *, mode: int) -> None:
        if not left[0]:
            raise PowerCutError
        left[0] -= 1
        durable_files.put_file(path, data, mode=mode)

    with monkeypatch.context() as patched:
        patched.setattr(keyring, "put_file", put)
        if survived < 5:
            with pytest.raises(PowerCutError):
                keyring.rotate(home, private_of(home), NOW)
        else:
            keyring.rotate(home, private_of(home), NOW)
    signing = keys.load(private_of(home)).public
    assert {first, signing} <= set(keyring.trusted_keys(home, private_of(home)))
    keyring.rotate(home, private_of(home), NOW)
    assert {first, signing} <= set(keyring.trusted_keys(home, private_of(home)))


def test_a_key_is_trusted_while_it_is_in_the_folder(home: Path, tmp_path: Path) -> None:
    keyring.make(home, private_of(home))
    partner = keys.create(tmp_path / "partner.pem").public
    file = keyring.trusted_folder(home) / "partner.pub"
    shutil.copy(keys.public_path(tmp_path / "partner.pem"), file)
    assert partner in keyring.trusted_keys(home, private_of(home))
    assert [key.state for key in keyring.known_keys(home, private_of(home))] == ["signing", "trusted"]
    file.unlink()
    assert partner not in keyring.trusted_keys(home, private_of(home))


def test_something_else_among_the_trusted_keys_is_named(home: Path) -> None:
    keyring.make(home, private_of(home))
    (keyring.trusted_folder(home) / "odd.pub").write_text("not a key")
    with pytest.raises(ConfigurationError, match=r"odd\.pub"):
        keyring.trusted_keys(home, private_of(home))


def test_the_times_above_a_key_are_no_part_of_it(home: Path) -> None:
    keyring.make(home, private_of(home))
    old, _ = keyring.rotate(home, private_of(home), NOW)
    file = keyring.trusted_folder(home) / f"{old.key_id}.pub"
    assert b"Retired: 2026-03-04T05:06:07.000Z\n" in file.read_bytes()
    shown = subprocess.run(["openssl", "pkey", "-pubin", "-in", str(file), "-pubout"], capture_output=True, check=False)
    assert shown.stdout == old.pem()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can look into, unlike those of tests."""
    folder = Path(tempfile.mkdtemp(prefix="gatewright-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "good"),
    [
        (0, NOBODY, 0o440, True),
        (0, NOBODY, 0o640, True),
        (0, NOBODY, 0o444, False),
        (0, NOBODY, 0o460, False),
        (NOBODY, NOBODY, 0o440, False),
        (NOBODY, NOBODY, 0o400, True),
        (1, NOBODY, 0o440, False),
    ],
)
def test_a_secret_mounted_for_the_group_of_the_process_is_taken(
    open_folder: Path, owner: int, group: int, mode: int, good: bool
) -> None:
    """As an orchestrator mounts it: owner root, read by a group of the process. In a process that is not root."""
    path = open_folder / "gatekeeper.pem"
    keys.create(path)
    os.chown(path, owner, group)
    path.chmod(mode)
    program = (
        "import cryptography.hazmat.primitives.asymmetric.ed25519, gatewright.evidence.signing.keys, securesystemslib.signer\n"
        "import os, sys; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from pathlib import Path\n"
        "from gatewright.errors import ConfigurationError\n"
        "from gatewright.evidence.signing import keys\n"
        "try:\n    print(keys.load(Path(sys.argv[1])).public.key_id)\n"
        "except ConfigurationError as error:\n    print(error.reason)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()
    expected = keys.load_public(keys.public_path(path)).key_id if good else "key_"
    assert found.startswith(expected)


def test_a_bundle_of_a_retired_key_is_made_again_with_that_key(tmp_path: Path) -> None:
    private = tmp_path / "keys/gatekeeper.pem"
    old = keyring.make(tmp_path, private).public
    keyring.rotate(tmp_path, private, NOW)
    assert keys.load(keyring.signing_file(tmp_path, private, old.key_id)).public == old
    assert keyring.signing_file(tmp_path, private, "of nobody") == private
    assert keyring.signing_file(tmp_path, private, "") == private
