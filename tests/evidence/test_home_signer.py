"""A signing key is replaced while a gatekeeper runs: it signs with the new one, and never what would not verify."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gatewright.clock import timestamp
from gatewright.errors import UnavailableError
from gatewright.evidence.signing import keyring, keys
from gatewright.evidence.signing.keyring import HomeSigner

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BEFORE, AFTER = (timestamp(NOW + timedelta(seconds=seconds)) for seconds in (-10, 10))


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = keys.home_key(tmp_path)
    keyring.make(tmp_path, path)
    return path


def test_the_key_that_signs_is_that_of_the_moment(tmp_path: Path, private: Path) -> None:
    signer = HomeSigner(tmp_path, private)
    assert signer.current(AFTER) is signer
    old, new = keyring.rotate(tmp_path, private, NOW)
    assert (signer.key_id, signer.current(AFTER).key_id, signer.current(BEFORE).key_id) == (old.key_id, new.key_id, new.key_id)


def test_a_retired_key_signs_nothing_that_ended_later(tmp_path: Path, private: Path) -> None:
    signer = HomeSigner(tmp_path, private)
    kept = private.read_bytes()
    keyring.rotate(tmp_path, private, NOW)
    # As it is between two steps of a rotation: the ring knows of the retirement, the old private key is still in its place.
    keys.public_path(private).unlink()
    private.write_bytes(kept)
    assert signer.current(BEFORE).key_id == signer.key_id
    with pytest.raises(UnavailableError) as refused:
        signer.current(AFTER)
    assert refused.value.reason == "bundle_unwritable"


def test_a_key_that_cannot_be_read_now_is_waited_for(tmp_path: Path, private: Path) -> None:
    signer = HomeSigner(tmp_path, private)
    kept = private.read_bytes()
    private.unlink()
    with pytest.raises(UnavailableError):
        signer.current(AFTER)
    private.write_bytes(kept)
    private.chmod(0o600)
    assert signer.current(AFTER).key_id == signer.key_id
