"""Key files: made private, refused when they are not, and never mixed up."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from securesystemslib.signer import SSlibKey

from gatewright.errors import ConfigurationError
from gatewright.evidence.signing import keys


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "gatekeeper.pem"


def test_a_new_key_is_readable_by_its_owner_alone(key_file: Path) -> None:
    keys.create(key_file)
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file.parent.stat().st_mode) == 0o700
    assert sorted(path.name for path in key_file.parent.iterdir()) == ["gatekeeper.pem", "gatekeeper.pem.pub"]


def test_what_was_made_is_what_is_loaded(key_file: Path) -> None:
    made = keys.create(key_file)
    assert keys.load(key_file).public == made.public == keys.load_public(keys.public_path(key_file))


def test_the_key_id_is_the_one_that_securesystemslib_gives_the_public_file(key_file: Path) -> None:
    made = keys.create(key_file)
    public = load_pem_public_key(keys.public_path(key_file).read_bytes())
    assert SSlibKey.from_crypto(public).keyid == made.public.key_id


def test_an_existing_key_is_never_overwritten(key_file: Path) -> None:
    keys.create(key_file)
    before = key_file.read_bytes()
    with pytest.raises(ConfigurationError) as caught:
        keys.create(key_file)
    assert caught.value.reason == "key_exists"
    assert key_file.read_bytes() == before


def test_processes_that_start_at_once_share_one_key(key_file: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = {key.public for key in pool.map(lambda _: keys.load_or_create(key_file), range(8))}
    assert made == {keys.load(key_file).public}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_private_key_that_others_could_read_is_refused(key_file: Path, mode: int) -> None:
    keys.create(key_file)
    key_file.chmod(mode)
    with pytest.raises(ConfigurationError) as caught:
        keys.load(key_file)
    assert caught.value.reason == "key_permissions"


def test_a_strange_public_key_beside_the_private_one_is_refused(key_file: Path, tmp_path: Path) -> None:
    keys.create(key_file)
    keys.create(tmp_path / "stranger.pem")
    keys.public_path(key_file).write_bytes(keys.public_path(tmp_path / "stranger.pem").read_bytes())
    with pytest.raises(ConfigurationError) as caught:
        keys.load(key_file)
    assert caught.value.reason == "key_mismatch"


def test_a_lost_public_file_is_written_again(key_file: Path) -> None:
    made = keys.create(key_file)
    keys.public_path(key_file).unlink()
    keys.load(key_file)
    assert keys.load_public(keys.public_path(key_file)) == made.public


def test_another_kind_of_key_is_refused(key_file: Path) -> None:
    key_file.parent.mkdir()
    other = generate_private_key(SECP256R1())
    key_file.touch(mode=0o600)
    public = other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    keys.public_path(key_file).write_bytes(public)
    encrypted = keys.create(key_file.with_name("other.pem")).secret
    for data in (
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        encrypted.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
        b"not a key",
        b"",
    ):
        key_file.write_bytes(data)
        with pytest.raises(ConfigurationError) as caught:
            keys.load(key_file)
        assert caught.value.reason == "key_not_ed25519"
    with pytest.raises(ConfigurationError) as caught:
        keys.load_public(keys.public_path(key_file))
    assert caught.value.reason == "key_not_ed25519"


def test_a_missing_key_is_named(key_file: Path) -> None:
    for load in (keys.load, keys.load_public):
        with pytest.raises(ConfigurationError, match=r"gatekeeper\.pem") as caught:
            load(key_file)
        assert caught.value.reason == "key_unreadable"


def test_a_private_key_does_not_show_itself(key_file: Path) -> None:
    key = keys.create(key_file)
    assert repr(key) == f"PrivateKey({key.public.key_id})"
