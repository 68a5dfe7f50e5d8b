"""The files of identities: private, whole, told apart by name, and refused when anything about them is off."""

from __future__ import annotations

import os
from pathlib import Path

import nkeys
import pytest

from gatewright.bus import identities
from gatewright.errors import ConfigurationError, MalformedError


def test_each_standing_identity_gets_its_own_key_once(tmp_path: Path) -> None:
    assert identities.make(tmp_path) == identities.STANDING
    before = identities.public_keys(tmp_path)
    assert identities.make(tmp_path, (*identities.STANDING, "publisher-ci")) == ("publisher-ci",)
    after = identities.public_keys(tmp_path)
    assert set(after) == {*identities.STANDING, "publisher-ci"}
    assert len(set(after.values())) == len(after)
    assert before.items() <= after.items()


def test_the_seed_is_private_and_is_the_one_of_the_public_key(tmp_path: Path) -> None:
    identities.make(tmp_path / "bus")
    path = identities.seed_file(tmp_path / "bus", "worker")
    credential = identities.load(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "bus").stat().st_mode & 0o077 == 0
    public = bytes(nkeys.from_seed(bytearray(credential.seed.encode())).public_key).decode()  # type: ignore[no-untyped-call]
    assert public == identities.public_keys(tmp_path / "bus")["worker"]
    assert credential.seed not in repr(credential)


def test_a_public_key_that_was_lost_or_changed_is_written_anew(tmp_path: Path) -> None:
    identities.make(tmp_path)
    before = identities.public_keys(tmp_path)
    (tmp_path / "worker.pub").write_text("U" * 56)
    (tmp_path / "pm.pub").unlink()
    identities.make(tmp_path)
    assert identities.public_keys(tmp_path) == before


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_a_seed_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    identities.make(tmp_path)
    (tmp_path / "worker.nk").chmod(mode)
    with pytest.raises(ConfigurationError) as refused:
        identities.load(tmp_path / "worker.nk")
    assert refused.value.reason == "key_permissions"


@pytest.mark.parametrize(
    "name", ["stranger.nk", "worker.txt", "publisher-.nk", "publisher-A.nk", "publisher-a.b.nk", "workers.nk"]
)
def test_a_file_that_names_no_identity_is_refused(tmp_path: Path, name: str) -> None:
    identities.make(tmp_path)
    (tmp_path / "worker.nk").rename(tmp_path / name)
    with pytest.raises(ConfigurationError) as refused:
        identities.load(tmp_path / name)
    assert refused.value.reason == "identity_invalid"


@pytest.mark.parametrize("content", [b"", b"SUAB", b"\xff\xfe", b"S" * 300, "operator"])
def test_a_file_that_holds_no_seed_of_a_user_is_refused(tmp_path: Path, content: bytes | str) -> None:
    if content == "operator":
        content = bytes(nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_OPERATOR))  # type: ignore[no-untyped-call]
    path = tmp_path / "worker.nk"
    assert isinstance(content, bytes)
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError) as refused:
        identities.load(path)
    assert refused.value.reason == "key_not_nkey"


def test_a_folder_that_lacks_one_or_has_one_twice_makes_no_configuration(tmp_path: Path) -> None:
    identities.make(tmp_path)
    (tmp_path / "worker.pub").write_text((tmp_path / "pm.pub").read_text())
    with pytest.raises(ConfigurationError, match="same key"):
        identities.public_keys(tmp_path)
    (tmp_path / "worker.pub").unlink()
    with pytest.raises(ConfigurationError, match="lacks the identity worker"):
        identities.public_keys(tmp_path)


def test_publishers_are_named_by_their_identity() -> None:
    assert identities.publisher_identity("default") == "publisher"
    assert identities.publisher_of(identities.publisher_identity("ci-2")) == "ci-2"
    assert [identities.publisher_of(name) for name in ("publisher", "operator", "watcher", "worker", "publisher-A")] == [
        "default",
        "operator",
        None,
        None,
        None,
    ]
    for name in ("", "A", "a.b", "*", "-a", "a" * 33, "a\n"):
        with pytest.raises(MalformedError):
            identities.publisher_identity(name)


def test_only_the_operator_publisher_sees_and_ends_every_run(tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match="take another name"):
        identities.publisher_identity("operator")
    assert not identities.is_known("publisher-operator")
    identities.make(tmp_path)
    for suffix in (".nk", ".pub"):
        (tmp_path / f"publisher-operator{suffix}").write_bytes((tmp_path / f"publisher{suffix}").read_bytes())
    with pytest.raises(ConfigurationError, match="names no identity"):
        identities.public_keys(tmp_path)


def test_each_credential_has_one_private_id_of_its_own(tmp_path: Path) -> None:
    identities.make(tmp_path)
    worker, pm = (identities.load(tmp_path / f"{name}.nk") for name in ("worker", "pm"))
    assert worker.private_id("x") == worker.private_id("x")
    assert len({worker.private_id("x"), pm.private_id("x"), worker.private_id("y"), "x"}) == 4


@pytest.mark.parametrize("name", ["publisher-default", "publisher-operator"])
def test_no_identity_takes_the_name_of_a_publisher_that_another_one_is(name: str) -> None:
    assert not identities.is_known(name)
    assert identities.publisher_of(name) is None
